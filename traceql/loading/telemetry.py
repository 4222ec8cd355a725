"""Reads telemetry.parquet, the samples of NVML that a run directory has."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from traceql.input_file import Unusable, content

_SCHEMA = pa.schema(
    [
        ("unix_ns", pa.int64()),
        ("gpu", pa.int64()),
        ("uuid", pa.string()),
        ("utilization_pct", pa.int64()),
        ("memory_used_bytes", pa.int64()),
        ("temperature_c", pa.int64()),
        ("power_mw", pa.int64()),
        ("sm_clock_mhz", pa.int64()),
        ("throttle_reasons", pa.int64()),
    ]
)


def read_telemetry(file: Path) -> pa.Table:
    """The samples in a file; columns that are not known here are left out.

    Raises:
        Unusable: the file cannot be read, or a column is missing or has another type.
    """
    given = pa.BufferReader(content(file))
    try:
        # Of the columns that are asked for, pyarrow silently leaves out those that are missing.
        rows = pq.read_table(given, columns=_SCHEMA.names).select(_SCHEMA.names).cast(_SCHEMA)
        rows.validate(full=True)
    except KeyError as error:
        raise Unusable(f"no column {error.args[0]}") from None
    except (pa.ArrowException, OSError) as error:
        raise Unusable(str(error).splitlines()[0]) from None
    return rows
