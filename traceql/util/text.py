"""Text: quoting in SQL, suggestions, printable text, and comment heads of files."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path

from traceql.errors import QueryInvalid


def literal(text: object) -> str:
    """A text or a path as a quoted SQL literal."""
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """The name of a table or column, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def suggestion(name: str, names: Iterable[str]) -> str:
    """A question with all names of the group (`comm` has `comm.skew`), or else the nearest few.

    Empty if no name is close.
    """
    known = list(names)
    group = [n for n in known if n.startswith(f"{name}.")]
    near = group or get_close_matches(name, known, cutoff=0.5)
    if not near:
        return ""
    *first, last = (f"'{n}'" for n in near)
    return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"


_CONTROL = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # change the direction of writing
    "\u2028\u2029"  # end a line
    "\ud800-\udfff\ufffe\uffff"  # no characters; XML forbids them, and UTF-8 the first
    "]"
)
_BLANKS = re.compile(r"[ \t\n\v\f\r]+")
_ENDING = "…"


def printable(text: str) -> str:
    r"""The text with control characters escaped, as `\x1b`; line feeds and tabs stay."""

    def escaped(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return text if text.isprintable() else _CONTROL.sub(escaped, text)


def one_line(text: str) -> str:
    """The printable text as one line with single spaces."""
    return printable(_BLANKS.sub(" ", text).strip(" "))


def shortened(text: str, letters: int) -> str:
    """The text, cut to a number of letters."""
    return text if len(text) <= letters else text[: letters - 1] + _ENDING


def format_count(count: int, singular: str, plural: str = "") -> str:
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


_COLUMN = re.compile(r"(\w+)\s+(\w+(?:\([^)]*\))?(?:\[\])?)\s+(.*)")


@dataclass(frozen=True)
class Column:
    """A column that a head declares."""

    name: str
    type: str  # as DuckDB names it
    text: str


@dataclass(frozen=True)
class CommentHead:
    """The comment at the head of a file: its first line, the prose below it, and its tags."""

    summary: str
    text: str
    tags: Mapping[str, Sequence[str]]  # for each allowed tag, the texts of its lines in order

    def only(self, tag: str, default: str = "") -> str:
        """The text of a tag, its lines joined with spaces."""
        return " ".join(self.tags[tag]) or default

    def names(self, tag: str) -> tuple[str, ...]:
        """The names in a tag, separated by commas or spaces."""
        return tuple(self.only(tag).replace(",", " ").split())


def source_text(path: Path) -> str:
    """The text of a file with a head.

    Raises QueryInvalid if it cannot be read, or it is not UTF-8.
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
        mark: the characters at the beginning of a comment line.

    Raises:
        QueryInvalid: the file has no head, or its head has another tag; the message quotes the
            line.
    """
    prose: list[str] = []
    found: dict[str, list[str]] = {tag: [] for tag in tags}
    for source_line in takewhile(lambda line: line.startswith(mark), source.splitlines()):
        line = source_line.removeprefix(mark).strip()
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
    """The columns of the `@column` lines of a head.

    Raises QueryInvalid if a line is not `name TYPE  text`.
    """
    columns = []
    for line in head.tags["column"]:
        found = _COLUMN.fullmatch(line)
        if not found:
            raise QueryInvalid(f"{name}: '@column {line}' is not 'name TYPE  text'")
        columns.append(Column(*found.groups()))
    return tuple(columns)
