"""Writes table `finding`: one SELECT with all kinds of finding and the parts that they share.

Each part and each kind is a common table expression that is named after its file. So a part that
several kinds read is computed once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from traceql.analysis.findings.catalog import FindingKind, finding_kinds
from traceql.util.comment_head import comment_head, source_text

_FOLDER = Path(__file__).resolve().parent
PARTS = _FOLDER / "parts"
# What the SELECT of a kind must yield, and what it may; what it does not is NULL.
_REQUIRED = ("value", "cost_ns", "finding")
_YIELDED = (
    *_REQUIRED, "saving_ns", "assumption", "advice", "is_uncertain", "rank", "at_rank", "ts", "dur",
)  # fmt: skip
FINDING_TABLE = _FOLDER / "result" / "finding.sql"


@dataclass(frozen=True)
class FindingFile:
    """The file of a part or of a kind of finding.

    Attributes:
        name: the name of its common table expression.
        needs: the tables and the parts that its SQL reads.
        kind: the kind of finding; None for a part.
    """

    path: Path
    name: str
    needs: tuple[str, ...]
    sql: str
    kind: FindingKind | None = None

    @property
    def clause(self) -> str:
        return f"{self.name} AS (\n{self.sql}\n)"


def finding_files() -> list[FindingFile]:
    """All parts, each after those that it needs, and then all kinds."""
    parts = {path.stem: _part(path) for path in sorted(PARTS.glob("*.sql"))}
    order = TopologicalSorter({name: parts.keys() & set(parts[name].needs) for name in parts})
    kinds = [
        FindingFile(kind.path, f"{kind.name}_finding", kind.needs, kind.sql, kind)
        for kind in finding_kinds()
    ]
    return [*(parts[name] for name in order.static_order()), *kinds]


def finding_table(files: Sequence[FindingFile]) -> str:
    """The text of FINDING_TABLE, with common table expressions for what it reads."""
    head, body = _split(source_text(FINDING_TABLE))
    return f"{head}-- @needs  {', '.join(needed_tables(files))}\n{_select(files, body)}"


def needed_tables(files: Sequence[FindingFile]) -> list[str]:
    """The tables that it reads."""
    every = {"finding_rule"}.union(*(file.needs for file in files))
    return sorted(every - {file.name for file in files})


def selects_by_file(files: Sequence[FindingFile]) -> Iterator[tuple[FindingFile, str]]:
    """For each file a SELECT of it that reads no later file: the first that fails has an error."""
    _, body = _split(source_text(FINDING_TABLE))
    parts: list[FindingFile] = []
    for file in files:
        if file.kind:
            yield file, _select([*parts, file], body)
        else:
            parts.append(file)
            yield file, f"WITH {', '.join(part.clause for part in parts)} FROM {file.name}"


def _part(path: Path) -> FindingFile:
    sql = source_text(path)
    return FindingFile(
        path, path.stem, comment_head(path.name, sql, ("needs",)).names("needs"), sql
    )


def _select(files: Sequence[FindingFile], body: str) -> str:
    """The SELECT of table `finding`, of these files alone; `body` is that of FINDING_TABLE."""
    nothing = ", ".join(f"NULL AS {column}" for column in _YIELDED)
    selects = [f"SELECT {nothing} WHERE FALSE"]  # so that every column exists
    selects += [_measured(file.kind) for file in files if file.kind]
    measured = "\nUNION ALL BY NAME\n".join(selects)
    clauses = [*(file.clause for file in files), f"measured AS (\n{measured}\n)"]
    return f"WITH {', '.join(clauses)}\n{body}"


def _measured(kind: FindingKind) -> str:
    """A SELECT of the rows of one kind, with the parameters of its evidence as a map of texts."""
    pairs = ", ".join(f"'{name}': CAST({sql} AS VARCHAR)" for name, sql in kind.parameters)
    required = ", ".join(_REQUIRED)
    return (
        f"SELECT '{kind.title}' AS kind, COLUMNS('^({'|'.join(_YIELDED)})$'),"
        f" CAST(MAP {{{pairs}}} AS MAP(VARCHAR, VARCHAR)) AS parameters\n"
        f"FROM (SELECT {required}, * EXCLUDE ({required}) FROM {kind.name}_finding)"
    )


def _split(text: str) -> tuple[str, str]:
    """The head of a SQL file, and its body."""
    lines = text.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if not line.startswith("--"))
    return "".join(lines[:at]), "".join(lines[at:])
