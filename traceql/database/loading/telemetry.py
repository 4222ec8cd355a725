"""Reads telemetry.parquet, the samples of NVML that a run directory has."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from traceql.util.input_file import Unusable, content

_NUMBERS = (
    *("unix_ns", "gpu", "utilization_pct", "memory_used_bytes", "temperature_c", "power_mw"),
    *("sm_clock_mhz", "throttle_reasons"),
)
_UUID = "uuid"


def read_telemetry(file: Path) -> pa.Table:
    """The samples in a file; columns that are not known here are left out.

    Raises:
        Unusable: the file cannot be read, or a column is missing or has another type.
    """
    from pyarrow.parquet import ParquetFile  # takes 50 ms, and few runs have telemetry

    given = pa.BufferReader(content(file))
    try:
        read = ParquetFile(given).read(columns=[*_NUMBERS, _UUID])  # those that are there
        columns = {name: _column(read, name) for name in (*_NUMBERS, _UUID)}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Unusable(str(error).splitlines()[0]) from None
    return pa.table(columns)


def _column(read: pa.Table, name: str) -> pa.ChunkedArray:
    if read.column_names.count(name) != 1:
        raise Unusable(f"it has not one column {name}")
    column, type_ = read[name], pa.string() if name == _UUID else pa.int64()
    is_expected = types.is_string if name == _UUID else types.is_integer
    if not (is_expected(column.type) or types.is_null(column.type)):
        raise Unusable(f"column {name} is {column.type}, not {type_}")
    found = column.cast(type_)
    found.validate(full=True)  # text may not be UTF-8
    if name != _UUID and not _is_moderate(found):
        raise Unusable(f"column {name} has a number of more than 62 bits")
    return found


def _is_moderate(numbers: pa.ChunkedArray) -> bool:
    """Whether a sum or difference of two of the numbers has 64 bits."""
    extremes = pc.min_max(numbers).as_py().values()
    return all(number is None or abs(number) < 2**62 for number in extremes)
