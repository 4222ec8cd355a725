"""Reads the catalogue of causes: one SQL file per cause in the folder `causes`.

    -- The model runs without CUDA graphs, so the host launches each kernel.
    -- @title    CUDA graphs off
    -- @group    host
    -- @after    launch_thread_starved
    -- @unless   launch_blocking_env
    -- @query    idle.host
    -- @record   Record with traceql capture run, which notes the engine configuration.
    -- @source   vLLM's documentation of CUDA graphs
    -- @needs    engine_setting, time_unit
    SELECT ... AS is_confirmed, ... AS reason, ... AS headline, ...

The SELECT yields one row, or none where the recording has nothing that the cause could show in:

- `is_confirmed`: TRUE, FALSE (ruled out), or NULL (undecided)
- `reason`: why it is ruled out or undecided, as a clause; NULL where it is confirmed
- `headline`: at most 15 words, with a number of this run
- `evidence`: a list of sentences with numbers; NULL ones are left out. In headline and evidence,
  {saving} stands for what the cause saves per step, as "5.9 ms".
- `remedy`: a line to paste
- `unknowns`: what was not measured, and what to record; NULL if nothing is missing

What ending the cause saves is one of

- `claims`: a list of {'unit': time_unit.unit, 'ns': ...}: the recorded time that would not be
  lost. Each nanosecond is granted to one cause, the first in the order of @after and @unless.
- `saving_ns`: a saving per step that is not in recorded time, such as steps that would not run
- `gain_pct`: a gain in throughput, where a step does not become shorter

It may also yield `samples` (how many observations the evidence has; fewer than 10 are never
severe), `is_severe`, `is_notable` and `is_remark` (where severity does not follow from the saving),
`least_share` (of the claim: what is saved at least, if something else then takes longer), `fine`
(a noun with a number, if what the cause is about was measured and is good: "clocks (1,965 of 1,980
MHz)"), `phase`, the place where it shows best (`rank`, `ts`, `dur`), and columns that parameters of
@query are taken from.

A cause that is a remark excludes no other one by @unless.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from traceql.errors import QueryInvalid
from traceql.util.text import comment_head, source_text

_FOLDER = Path(__file__).resolve().parent
PARTS = _FOLDER / "parts"  # tables that several causes read
CAUSE_FOLDERS = [_FOLDER / "causes"]
GROUPS = ("recording", "host", "scheduling", "communication", "kernels", "memory", "hardware")
SEVERITIES = ("severe", "notable", "remark")
_TAGS = (
    "title", "group", "most", "after", "unless", "query", "record", "source", "needs",
    "empty_unless",
)  # fmt: skip
_REQUIRED = ("title", "group", "query", "record", "source", "needs")
_WORD = re.compile(r"(?:'[^']*'|\S)+")  # a text in quotation marks may have spaces
_PARAMETER = re.compile(r"(\w+)=(.+)")


@dataclass(frozen=True)
class Cause:
    """One cause.

    Attributes:
        name: its id, after which its file is named.
        summary: what it is, in one sentence.
        group: one of GROUPS.
        most: its severity is never higher; severe if the file has no @most.
        after: causes that are more specific: they get the time that both claim.
        unless: causes that explain all that this one shows: where one of them is confirmed, this
            one is ruled out.
        query: the query that shows the details.
        parameters: of that query: (name, SQL of the value: a column of the row, or a constant).
        record: what to record to decide it.
        source: where the evidence and the thresholds come from.
        needs: the tables that its SQL reads.
        empty_unless: tables without which it has no row.
    """

    path: Path
    summary: str
    title: str
    group: str
    most: str
    after: tuple[str, ...]
    unless: tuple[str, ...]
    query: str
    parameters: tuple[tuple[str, str], ...]
    record: str
    source: str
    needs: tuple[str, ...]
    empty_unless: tuple[str, ...]
    sql: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def table(self) -> str:
        """The scratch table with its row."""
        return f"{self.name}_cause"

    @property
    def select(self) -> str:
        """The SELECT of its row, with the parameters of its query."""
        pairs = ", ".join(f"'{name}': CAST({sql} AS VARCHAR)" for name, sql in self.parameters)
        return (
            f"SELECT *, CAST(MAP {{{pairs}}} AS MAP(VARCHAR, VARCHAR)) AS parameters\n"
            f"FROM (\n{self.sql}\n)"
        )


def causes() -> Mapping[str, Cause]:
    """All causes by name, each after those that it is after, or ruled out by.

    Raises:
        QueryInvalid: a file cannot be read, its head is invalid, two have one name, or their order
            is circular; the message names a file.
    """
    files = sorted(
        (path for folder in CAUSE_FOLDERS for path in folder.glob("*.sql")), key=lambda p: p.name
    )
    return _causes(tuple((path, path.stat().st_mtime_ns) for path in files))


@lru_cache(maxsize=1)
def _causes(files: tuple[tuple[Path, int], ...]) -> Mapping[str, Cause]:
    found: dict[str, Cause] = {}
    for path, _ in files:
        if path.stem in found:
            raise QueryInvalid(f"{path}: {found[path.stem].path} is the same cause")
        found[path.stem] = _cause(path)
    for one in found.values():
        for name in (*one.after, *one.unless):
            if name not in found:
                raise QueryInvalid(f"{one.path.name}: there is no cause '{name}', which it names")
    try:
        order = [
            *TopologicalSorter(
                {name: (*one.after, *one.unless) for name, one in found.items()}
            ).static_order()
        ]
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise QueryInvalid(f"causes come after each other in a circle: {circle}") from None
    return {name: found[name] for name in order}


def _cause(path: Path) -> Cause:
    source = source_text(path)
    head = comment_head(path.name, source, _TAGS)
    for tag in _REQUIRED:
        if not head.only(tag):
            raise QueryInvalid(f"{path.name}: it has no @{tag}")
    if head.only("group") not in GROUPS:
        known = ", ".join(GROUPS)
        raise QueryInvalid(f"{path.name}: @group is '{head.only('group')}', not one of {known}")
    if head.only("most", SEVERITIES[0]) not in SEVERITIES:
        known = ", ".join(SEVERITIES)
        raise QueryInvalid(f"{path.name}: @most is '{head.only('most')}', not one of {known}")
    query, *parameters = _WORD.findall(head.only("query"))
    if wrong := [text for text in parameters if not _PARAMETER.fullmatch(text)]:
        raise QueryInvalid(f"{path.name}: parameter '{wrong[0]}' of @query is not 'name=value'")
    return Cause(
        path,
        head.summary,
        head.only("title"),
        head.only("group"),
        head.only("most", SEVERITIES[0]),
        head.names("after"),
        head.names("unless"),
        query,
        tuple((name, value) for name, _, value in (text.partition("=") for text in parameters)),
        head.only("record"),
        head.only("source"),
        head.names("needs"),
        tuple(head.tags["empty_unless"]),
        source.rstrip().removesuffix(";"),
    )
