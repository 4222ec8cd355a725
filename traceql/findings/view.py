"""Writes the view `finding`: one SELECT with all kinds of finding and the parts that they share.

Each part and each kind is a common table expression that is named after its file. So a part that
several kinds read is computed once.
"""

from graphlib import TopologicalSorter
from pathlib import Path

from traceql.comment_head import comment_head
from traceql.findings.catalog import FindingKind, finding_kinds

_FOLDER = Path(__file__).resolve().parent
_PARTS = _FOLDER / "parts"
FINDING_VIEW = _FOLDER / "result" / "finding.sql"


def finding_view() -> str:
    """The text of FINDING_VIEW, with common table expressions for what it reads."""
    kinds = finding_kinds()
    parts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_PARTS.glob("*.sql"))}
    reads = {
        name: set(comment_head(name, sql, ("needs",)).names("needs")) for name, sql in parts.items()
    }
    in_order = TopologicalSorter({name: reads[name] & parts.keys() for name in parts})
    clauses = [_clause(name, parts[name]) for name in in_order.static_order()]
    clauses += [_clause(f"{kind.name}_finding", kind.sql) for kind in kinds]
    every = set().union(*reads.values(), *(kind.needs for kind in kinds), {"finding_rule"})
    head, body = _split(FINDING_VIEW.read_text(encoding="utf-8"))
    measured = "\nUNION ALL BY NAME\n".join(map(_measured, kinds))
    clauses.append(_clause("measured", measured))
    tables = ", ".join(sorted(every - parts.keys()))
    return f"{head}-- @needs  {tables}\nWITH {', '.join(clauses)}\n{body}"


def _clause(name: str, sql: str) -> str:
    return f"{name} AS (\n{sql}\n)"


def _measured(kind: FindingKind) -> str:
    """A SELECT of the rows of one kind, with the parameters of its evidence as a map of texts."""
    pairs = ", ".join(f"'{name}': CAST({sql} AS VARCHAR)" for name, sql in kind.parameters)
    return (
        f"SELECT '{kind.title}' AS kind, value, cost_ns, finding,"
        f" CAST(MAP {{{pairs}}} AS MAP(VARCHAR, VARCHAR)) AS parameters\n"
        f"FROM {kind.name}_finding"
    )


def _split(text: str) -> tuple[str, str]:
    """The head of a SQL file, and its body."""
    lines = text.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if not line.startswith("--"))
    return "".join(lines[:at]), "".join(lines[at:])
