"""Reads the kinds of finding from the files of this folder, which look like this:

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
"""

import re
from dataclasses import dataclass
from pathlib import Path

from traceql.errors import QueryInvalid
from traceql.util.comment_head import comment_head, source_text

FINDING_FOLDERS = [Path(__file__).resolve().parent]
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
    query, *parameters = _WORD.findall(head.only("evidence"))
    return FindingKind(
        path,
        head.only("title"),
        _number(path.name, "@notable", head.only("notable")),
        _number(path.name, "@severe", head.only("severe")),
        head.only("unit"),
        tuple(_threshold(path.name, line) for line in head.tags["threshold"]),
        query,
        tuple(_parameter(path.name, text) for text in parameters),
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


def _threshold(file: str, line: str) -> tuple[str, float, str]:
    found = _THRESHOLD.fullmatch(line)
    if not found:
        raise QueryInvalid(f"{file}: '@threshold {line}' is not 'name = number  text'")
    name, number, text = found.groups()
    return name, _number(file, f"@threshold {name} =", number), text


def _parameter(file: str, text: str) -> tuple[str, str]:
    found = _PARAMETER.fullmatch(text)
    if not found:
        raise QueryInvalid(f"{file}: evidence parameter '{text}' is not 'name=value'")
    return found[1], found[2]
