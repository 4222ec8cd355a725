"""The sums that torch_npu leaves in analysis.db beside a profile."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from traceql.errors import TraceCorrupt
from traceql.readers.formats.ascend_db.names import ANALYSIS
from traceql.readers.sqlite_file import SqliteFile, connected

_STEPS, _OPERATIONS = "StepTraceTime", "CommAnalyzerTime"
# The columns, as the text export calls them.
_SUMS = {
    "computing": "Computing",
    "communication_not_overlapped": "Communication(Not Overlapped)",
    "overlapped": "Overlapped",
    "communication": "Communication",
    "free": "Free",
    "stage": "Stage",
    "bubble": "Bubble",
    "communication_not_overlapped_and_exclude_receive": "Communication(Not Overlapped and "
    "Exclude Receive)",
    "preparing": "Preparing",
}
_MOST_STEPS = 10_000


@dataclass(frozen=True)
class StepSums:
    """What the profiler says of a step.

    Attributes:
        step: its number as text, empty where the program marked none.
        us: the time of each kind by its name, us. Values that are no numbers are left out.
    """

    step: str
    us: dict[str, float]


@dataclass(frozen=True)
class Analysis:
    """The content of the file; empty if there is none that can be read.

    Attributes:
        operations: the durations of the operations of each name, ns.
        damaged: a sentence if there is one that cannot be read.
    """

    steps: list[StepSums]
    operations: dict[str, list[int]]
    damaged: str | None = None


NO_ANALYSIS = Analysis([], {})


def analysis_beside(profile: Path) -> Analysis:
    """That of a profile."""
    path = profile.with_name(ANALYSIS)
    if not path.is_file():
        return NO_ANALYSIS
    try:
        with _opened(path) as file:
            return Analysis(list(_steps(file)), _operations(file))
    except (TraceCorrupt, OSError) as error:
        return Analysis([], {}, damaged=f"{ANALYSIS}: {error}")


@contextmanager
def _opened(path: Path) -> Iterator[SqliteFile]:
    with connected(path) as con:
        yield SqliteFile(con)


def _steps(file: SqliteFile) -> Iterator[StepSums]:
    if not file.has(_STEPS, "step"):
        return
    columns = [name for name in _SUMS if file.has(_STEPS, name)]
    for step, *values in file.rows(
        f"SELECT {', '.join(['step', *columns])} FROM {_STEPS} LIMIT {_MOST_STEPS}"
    ):
        named = zip((_SUMS[name] for name in columns), values, strict=True)
        us = {name: float(value) for name, value in named if isinstance(value, int | float)}
        yield StepSums("" if step is None else str(step), us)


def _operations(file: SqliteFile) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    if file.has(_OPERATIONS, "hccl_op_name", "elapse_time"):
        for name, ms in file.rows(f"SELECT hccl_op_name, elapse_time FROM {_OPERATIONS}"):
            if isinstance(ms, int | float) and name != "Total Op Info":
                found[str(name)].append(round(ms * 1_000_000))
    return found
