"""Reads the comment at the beginning of a file: prose first, then tagged lines.

    -- One row per kernel name, by total GPU time.
    --
    -- Durations are summed across streams, so a sum may exceed wall time.
    -- @column total_ns  BIGINT  Summed duration, ns.

Queries, tables, findings and checks describe themselves in this way. A Python file that
makes a table has the same head, with `#` in place of `--`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from traceql.errors import QueryInvalid

_COLUMN = re.compile(r"(\w+)\s+(\w+(?:\([^)]*\))?(?:\[\])?)\s+(.*)")


@dataclass(frozen=True)
class Column:
    """A column that a head declares."""

    name: str
    type: str  # as DuckDB names it
    text: str


@dataclass(frozen=True)
class CommentHead:
    """A parsed head.

    Attributes:
        summary: the first line.
        text: the prose below the first line.
        tags: for each allowed tag, the texts of its lines, in the order of the file.
    """

    summary: str
    text: str
    tags: Mapping[str, Sequence[str]]

    def only(self, tag: str, default: str = "") -> str:
        """The text of a tag; if it has several lines, they are joined with spaces."""
        return " ".join(self.tags[tag]) or default

    def names(self, tag: str) -> tuple[str, ...]:
        """The names that a tag lists, separated by commas or spaces."""
        return tuple(self.only(tag).replace(",", " ").split())


def source_text(path: Path) -> str:
    """The text of a file with a head.

    Raises:
        QueryInvalid: it cannot be read, or it is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise QueryInvalid(f"cannot read {path}: {error}") from None


def comment_head(name: str, source: str, tags: Collection[str], *, mark: str = "--") -> CommentHead:
    """The head of a file.

    Args:
        name: the name of the file in error messages.
        source: the text of the file.
        tags: the tags that the head may have.
        mark: the characters that a comment line begins with.

    Raises:
        QueryInvalid: the file has no head, or its head has another tag; the message quotes the
            line.
    """
    prose: list[str] = []
    found: dict[str, list[str]] = {tag: [] for tag in tags}
    for line in _comment_lines(source, mark):
        if not line.startswith("@"):
            prose.append(line)
            continue
        tag, _, rest = line[1:].partition(" ")
        if tag not in found:
            raise QueryInvalid(f"{name}: unknown tag in '{mark} {line}'")
        found[tag].append(rest.strip())
    summary, _, text = "\n".join(prose).strip().partition("\n")
    if not summary:
        raise QueryInvalid(f"{name}: the file must begin with a comment that says what one row is")
    return CommentHead(summary, text.strip(), found)


def described_columns(name: str, head: CommentHead) -> tuple[Column, ...]:
    """The columns that the `@column` lines of a head declare.

    Raises:
        QueryInvalid: a line is not `name TYPE  text`.
    """
    return tuple(_column(name, line) for line in head.tags["column"])


def _column(name: str, line: str) -> Column:
    found = _COLUMN.fullmatch(line)
    if not found:
        raise QueryInvalid(f"{name}: '@column {line}' is not 'name TYPE  text'")
    return Column(*found.groups())


def _comment_lines(source: str, mark: str) -> list[str]:
    lines = []
    for line in source.splitlines():
        if not line.startswith(mark):
            break
        lines.append(line.removeprefix(mark).strip())
    return lines
