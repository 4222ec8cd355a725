"""The sums that torch_npu leaves in analysis.db beside a profile."""

from pathlib import Path

import pyarrow as pa

from traceql.errors import TraceCorrupt
from traceql.readers.formats.ascend_db.names import ANALYSIS
from traceql.readers.scratch import Scratch
from traceql.readers.sqlite_container import SqliteContainer, opened_sqlite
from traceql.util.text import identifier

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
_SUM = pa.schema(
    [
        ("place", pa.int64()),  # number of the row
        ("step", pa.string()),  # empty where the program marked none
        ("name", pa.string()),
        ("us", pa.float64()),
    ]
)
_OPERATION = pa.schema([("name", pa.string()), ("ns", pa.int64())])


def read_analysis(profile: Path, scratch: Scratch) -> list[str]:
    """Makes the tables step_sum and analysed from the file beside a profile.

    Returns: a sentence if the file cannot be read.
    """
    path, damaged = profile.with_name(ANALYSIS), []
    sums: list[dict[str, object]] = []
    operations: list[dict[str, object]] = []
    if path.is_file():
        folder = scratch.folder / "analysis"
        folder.mkdir()
        try:
            with opened_sqlite(path, folder) as file:
                sums, operations = _sums(file), _operations(file)
        except (TraceCorrupt, OSError) as error:
            damaged = [f"{ANALYSIS}: {error}"]
    scratch.create("step_sum", [pa.Table.from_pylist(sums, _SUM)])
    scratch.create("analysed", [pa.Table.from_pylist(operations, _OPERATION)])
    return damaged


def _sums(file: SqliteContainer) -> list[dict[str, object]]:
    present = file.columns(_STEPS)
    if "step" not in present:
        return []
    columns = [name for name in _SUMS if name in present]
    names = ", ".join(map(identifier, ["step", *columns]))
    return [
        {
            "place": row,
            "step": "" if step is None else str(step),
            "name": _SUMS[name],
            "us": float(us),
        }
        for row, (step, *values) in enumerate(
            file.query(f"SELECT {names} FROM {_STEPS} LIMIT {_MOST_STEPS}")
        )
        for name, us in zip(columns, values, strict=True)
        if isinstance(us, int | float)
    ]


def _operations(file: SqliteContainer) -> list[dict[str, object]]:
    if not file.columns(_OPERATIONS) >= {"hccl_op_name", "elapse_time"}:
        return []
    return [
        {"name": str(name), "ns": round(ms * 1_000_000)}
        for name, ms in file.query(f"SELECT hccl_op_name, elapse_time FROM {_OPERATIONS}")
        if isinstance(ms, int | float) and name != "Total Op Info"
    ]
