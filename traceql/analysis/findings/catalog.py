"""Reads the kinds of finding from the files of this folder, and writes table `finding`.

    -- One rank is the late rank of most collectives of its communicator.
    -- @title      late rank
    -- @notable    5
    -- @severe     15
    -- @unit       % of the run
    -- @threshold  share = 0.6  Share of the wait time that must be for this rank.
    -- @evidence   comm.stragglers rank=rank
    -- @advice     What to try.
    -- @source     Where the thresholds come from.
    -- @needs      run_window, waiting
    SELECT ... AS value, ... AS cost_ns, '...' AS finding, ... AS rank

The SELECT yields `value`, which is compared with the thresholds notable and severe; `cost_ns`, the
time that it costs all ranks together (NULL if unknown); `finding`, the sentence; and the columns
that the parameters of the evidence are taken from. It may also yield

- `saving_ns` and `assumption`: how much shorter the run would be, and under which condition
- `advice`: what to try in this case, which comes before the advice of the head
- `is_uncertain`: whether too little was measured for the finding to be severe
- `rank`, `ts` and `dur`: the place in the trace where it shows best; `at_rank` if that is on
  another rank than the one that the finding is about

Table `finding` is one SELECT. Each kind, and each part that several kinds read, is a common table
expression named after its file, so that a part is computed once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from traceql.errors import QueryInvalid
from traceql.util.text import comment_head, source_text

if TYPE_CHECKING:
    from traceql.database.database import Database

_FOLDER = Path(__file__).resolve().parent
FINDING_FOLDERS = [_FOLDER]
PARTS = _FOLDER / "parts"
# What the SELECT of a kind must yield, and what it may; what it does not is NULL.
_REQUIRED_COLUMNS = ("value", "cost_ns", "finding")
_YIELDED = (
    *_REQUIRED_COLUMNS,
    *("saving_ns", "assumption", "advice", "is_uncertain", "rank", "at_rank", "ts", "dur"),
)
FINDING_TABLE = _FOLDER / "result" / "finding.sql"
_TAGS = (
    "title", "notable", "severe", "unit", "threshold", "evidence", "advice", "source", "needs",
)  # fmt: skip
_REQUIRED = ("title", "unit", "evidence", "advice", "source")
_THRESHOLD = re.compile(r"(\w+)\s*=\s*(\S+)\s+(.*)")
_WORD = re.compile(r"(?:'[^']*'|\S)+")  # a text in quotation marks may have spaces
_PARAMETER = re.compile(r"(\w+)=(.+)")


@dataclass(frozen=True)
class FindingKind:
    """One kind of finding.

    Attributes:
        path: its file, after which it is named.
        title: what users call it.
        thresholds: further thresholds that decide whether it is reported: (name, value, meaning).
        query: the query that shows the details.
        parameters: the parameters of that query: (name, SQL of the value), where the SQL is a
            column of the SELECT or a constant.
        needs: the tables and the parts (files in parts/) that its SQL reads.
    """

    path: Path
    title: str
    notable: float
    severe: float
    unit: str
    thresholds: tuple[tuple[str, float, str], ...]
    query: str
    parameters: tuple[tuple[str, str], ...]
    advice: str
    source: str
    needs: tuple[str, ...]
    sql: str

    @property
    def name(self) -> str:
        return self.path.stem


def finding_kinds() -> list[FindingKind]:
    """Every kind of finding, in the order of file names.

    Raises:
        QueryInvalid: a file cannot be read, its head is invalid, or two have one title; the message
            names it.
    """
    files = [path for folder in FINDING_FOLDERS for path in folder.glob("*.sql")]
    found = [_finding(path) for path in sorted(files, key=lambda path: path.name)]
    titles = [kind.title for kind in found]
    for kind in found:
        if titles.count(kind.title) > 1:
            raise QueryInvalid(f"{kind.name}.sql: another finding has the title '{kind.title}' too")
    return found


def _finding(path: Path) -> FindingKind:
    sql = source_text(path)
    head = comment_head(path.name, sql, _TAGS)
    for tag in _REQUIRED:
        if not head.only(tag):
            raise QueryInvalid(f"{path.name}: it has no @{tag}")
    if "'" in head.only("title"):
        raise QueryInvalid(f"{path.name}: its title has a quotation mark")
    thresholds = []
    for line in head.tags["threshold"]:
        if not (found := _THRESHOLD.fullmatch(line)):
            raise QueryInvalid(f"{path.name}: '@threshold {line}' is not 'name = number  text'")
        name, number, text = found.groups()
        thresholds.append((name, _number(path.name, f"@threshold {name} =", number), text))
    query, *parameters = _WORD.findall(head.only("evidence"))
    if wrong := [text for text in parameters if not _PARAMETER.fullmatch(text)]:
        raise QueryInvalid(f"{path.name}: evidence parameter '{wrong[0]}' is not 'name=value'")
    return FindingKind(
        path,
        head.only("title"),
        _number(path.name, "@notable", head.only("notable")),
        _number(path.name, "@severe", head.only("severe")),
        head.only("unit"),
        tuple(thresholds),
        query,
        tuple((name, value) for name, _, value in (text.partition("=") for text in parameters)),
        head.only("advice"),
        head.only("source"),
        head.names("needs"),
        sql.rstrip().removesuffix(";"),
    )


def _number(file: str, before: str, text: str) -> float:
    """The number that follows these words of the head."""
    try:
        return float(text)
    except ValueError:
        raise QueryInvalid(f"{file}: '{before} {text}' is not a number") from None


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


def finding_folders() -> list[Path]:
    """The folders with the files of all findings, and of their table."""
    return [*FINDING_FOLDERS, PARTS, FINDING_TABLE.parent]


def finding_files() -> list[FindingFile]:
    """All parts, each after those that it needs, and then all kinds."""
    parts = {}
    for path in sorted(PARTS.glob("*.sql")):
        sql = source_text(path)
        needs = comment_head(path.name, sql, ("needs",)).names("needs")
        parts[path.stem] = FindingFile(path, path.stem, needs, sql)
    order = TopologicalSorter({name: parts.keys() & set(parts[name].needs) for name in parts})
    kinds = [
        FindingFile(kind.path, f"{kind.name}_finding", kind.needs, kind.sql, kind)
        for kind in finding_kinds()
    ]
    return [*(parts[name] for name in order.static_order()), *kinds]


def finding_table(files: Sequence[FindingFile]) -> str:
    """The text of FINDING_TABLE, with common table expressions for what it reads."""
    head, body = _split(source_text(FINDING_TABLE))
    needs = {"finding_rule"}.union(*(file.needs for file in files))
    tables = sorted(needs - {file.name for file in files})
    return f"{head}-- @needs  {', '.join(tables)}\n{_select(files, body)}"


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


def _select(files: Sequence[FindingFile], body: str) -> str:
    """The SELECT of table `finding`, of these files alone; `body` is that of FINDING_TABLE."""
    nothing = ", ".join(f"NULL AS {column}" for column in _YIELDED)
    selects = [f"SELECT {nothing} WHERE FALSE"]  # so that every column exists
    required = ", ".join(_REQUIRED_COLUMNS)
    for kind in (file.kind for file in files if file.kind):
        # The parameters of its evidence are a map of texts.
        pairs = ", ".join(f"'{name}': CAST({sql} AS VARCHAR)" for name, sql in kind.parameters)
        selects.append(
            f"SELECT '{kind.title}' AS kind, COLUMNS('^({'|'.join(_YIELDED)})$'),"
            f" CAST(MAP {{{pairs}}} AS MAP(VARCHAR, VARCHAR)) AS parameters\n"
            f"FROM (SELECT {required}, * EXCLUDE ({required}) FROM {kind.name}_finding)"
        )
    measured = "\nUNION ALL BY NAME\n".join(selects)
    clauses = [*(file.clause for file in files), f"measured AS (\n{measured}\n)"]
    return f"WITH {', '.join(clauses)}\n{body}"


def _split(text: str) -> tuple[str, str]:
    """The head of a SQL file, and its body."""
    lines = text.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if not line.startswith("--"))
    return "".join(lines[:at]), "".join(lines[at:])


def evidence_command(finding: Mapping[str, Any], database: str) -> str:
    """The command for a row of overview.findings: `traceql run comm.stragglers DB --rank 3`.

    Args:
        database: as a shell reads it, perhaps with options.
    """
    options = "".join(f" --{name} {quote(value)}" for name, value in finding["parameters"].items())
    return f"traceql run {finding['query']} {database}{options}"


def saving(finding: Mapping[str, Any]) -> str:
    """What ending a finding would save: `up to 625.4 ms (29% of the run) if ...`."""
    return (
        f"up to {finding['saving_ns'] / 1e6:,.1f} ms ({finding['saving_pct']:.0f}% of the run) "
        f"{finding['assumption']}"
    )


def nothing_found(trace: "Database") -> str:
    """Why there are none."""
    if len(trace.select("FROM trace LIMIT 1")):
        return "no number reaches its threshold (table reference.finding_rule)"
    return (
        "they need a timeline: load a trace of the same program with the profile "
        "(traceql load TRACE PROFILE)"
    )
