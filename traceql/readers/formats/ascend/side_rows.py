"""What the tables beside a trace add to it: rows of kernels, samples, and times of operations."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

import pyarrow as pa

from traceql.readers.dialects.ascend.vocabulary import Argument
from traceql.readers.formats.ascend.side_files import Row, SideFiles

# Columns of kernel_details.csv by the names that versions gave them, and the arguments they become.
_DETAILS = {
    Argument.TYPE: ("Type",),
    Argument.CORE: ("Accelerator Core",),
    Argument.BLOCK_DIM: ("Block Dim", "Block Num"),
    Argument.INPUT_SHAPES: ("Input Shapes",),
    Argument.INPUT_TYPES: ("Input Data Types",),
    Argument.OUTPUT_SHAPES: ("Output Shapes",),
    Argument.OUTPUT_TYPES: ("Output Data Types",),
}
_START = ("Start Time(us)", "Start Time")
_MEMORY, _STEPS = ("memory_record.csv", "npu_module_mem.csv"), "step_trace_time.csv"
_AT, _MB, _STEP = "Timestamp(us)", "(MB)", "Step"
_NO_SAMPLES = frozenset({"Device_id", _STEP})
_MISSING = frozenset({"", "N/A"})
_FARTHEST_NS = 2**62
_TIMES = "Communication Time Info"
Columns = dict[str, pa.Array]
_TYPES = {"s": pa.large_string(), "i": pa.int64(), "f": pa.float64()}


def kernel_detail(files: SideFiles) -> Columns:
    """The rows of kernel_details.csv; `members` are arguments as JSON without braces."""
    rows = (
        (_ns_of_us(_first(row, _START)), row.get("Name", ""), _members(row))
        for row in files.rows("kernel_details.csv")
    )
    return _columns(rows, start_ns="i", name="s", members="s")


def operation(files: SideFiles) -> Columns:
    """The operations in communication.json, each with its communicator."""
    found = []
    for step in files.document("communication.json").values():
        for kind in step.values() if isinstance(step, dict) else ():
            for called, content in kind.items() if isinstance(kind, dict) else ():
                name, _, communicator = called.partition("@")
                if isinstance(content, dict) and name != "Total Op Info":
                    times = (_ms(content, what) for what in ("Elapse", "Transit"))
                    found.append((name, communicator, *times))
    return _columns(found, name="s", communicator="s", elapse_ms="f", transit_ms="f")


def sample(files: SideFiles) -> Columns:
    """Memory in use, and the profiler's sums of each step, whose time is that of the step."""
    return _columns(_samples(files), name="s", unit="s", ts="i", step="i", value="f")


def sample_cells(files: SideFiles) -> int:
    """The number of samples, counted by the cells that are not empty."""
    memory = (
        cell
        for file in _MEMORY
        for row in files.rows(file)
        for column, cell in row.items()
        if column.endswith(_MB)
    )
    steps = (row[name] for row in files.rows(_STEPS) for name in row.keys() - _NO_SAMPLES)
    return sum(cell not in _MISSING for cells in (memory, steps) for cell in cells)


def step_sum(files: SideFiles) -> Columns:
    """The sums of the only step of the file, us; none if it has several."""
    rows = files.rows(_STEPS)
    sums = _numbers(rows[0]) if len(rows) == 1 else {}
    return _columns(list(sums.items()), name="s", us="f")


def _samples(files: SideFiles) -> Iterator[tuple[str, str, int | None, int | None, float]]:
    for file in _MEMORY:
        for row in files.rows(file):
            ts, component = _ns_of_us(row.get(_AT)), row.get("Component") or "memory"
            for column, value in _numbers(row).items():
                if column.endswith(_MB) and ts is not None:
                    name = f"{file} {component} {column.removesuffix(_MB)}"
                    yield name, "MB", ts, None, value
    for row in files.rows(_STEPS):
        numbers = _numbers(row)
        step = int(numbers[_STEP]) if _STEP in numbers else None
        for column, value in numbers.items():
            if column not in _NO_SAMPLES:
                yield f"{_STEPS} {column}", "us", None, step, value


def _columns(rows: Iterable[tuple[object, ...]], **types: str) -> dict[str, pa.Array]:
    """Rows as columns of these types: s text, i integer, f number; `place` numbers the rows."""
    listed = list(rows)
    columns = list(zip(*listed, strict=True)) or [()] * len(types)
    return {"place": pa.array(range(len(listed)), pa.int64())} | {
        name: pa.array(column, _TYPES[type_])
        for (name, type_), column in zip(types.items(), columns, strict=True)
    }


def _members(row: Row) -> str:
    known = {
        argument.value: _value(row[column])
        for argument, columns in _DETAILS.items()
        for column in columns
        if row.get(column, "") not in _MISSING
    }
    return json.dumps(known, ensure_ascii=False)[1:-1]


def _value(cell: str) -> str | int:
    """The cell as a number if it is one; shapes without the quotes around them."""
    return int(cell) if cell.isdecimal() and len(cell) < 19 else cell.strip('"')


def _first(row: Row, columns: Sequence[str]) -> str | None:
    return next((row[column] for column in columns if column in row), None)


def _numbers(row: Row) -> dict[str, float]:
    """The cells that are numbers."""
    found = {}
    for column, cell in row.items():
        try:
            value = float(cell)
        except ValueError:
            continue
        if abs(value) < float("inf"):
            found[column] = value
    return found


def _ms(operation: Mapping[str, object], what: str) -> float:
    """One of the times of an operation; 0 if the file does not have it."""
    times = operation.get(_TIMES)
    value = times.get(f"{what} Time(ms)") if isinstance(times, dict) else None
    return float(value) if isinstance(value, int | float) else 0.0


def _ns_of_us(text: str | None) -> int | None:
    """Microseconds in nanoseconds, exactly; None if they are not a time."""
    try:
        ns = Decimal(str(text)) * 1000
        whole = int(ns.to_integral_value(ROUND_HALF_EVEN)) if ns.is_finite() else _FARTHEST_NS
    except (InvalidOperation, ValueError):
        return None
    return whole if abs(whole) < _FARTHEST_NS else None


# By the names of the tables in the scratch database.
TABLES = {
    "kernel_detail": kernel_detail,
    "operation": operation,
    "sample": sample,
    "step_sum": step_sum,
}
