# One row per device and type of numbers in the list that traceql brings.
# @kind   scratch
# @scope  rank
# @column position      BIGINT   Order of the rows, from 0.
# @column device        VARCHAR  RE2 regular expression, which may match anywhere in the device's name.
# @column example       VARCHAR  Name of such a device.
# @column dtype         VARCHAR  Type of the numbers that are multiplied.
# @column tflops        DOUBLE   Dense peak, 1e12 floating-point operations per second.
# @column hbm_gbps      DOUBLE   Peak of the memory, 1e9 bytes per second.
# @column l2_bytes      BIGINT   Size of the last cache before the memory, bytes; NULL if unknown.
# @column memory_bytes  BIGINT   Size of the memory, bytes.
# @column kernel_ns     BIGINT   Duration of a kernel that has nothing to do, ns; NULL if unknown.
# @column source        VARCHAR  Document that states the peaks.

"""Reads traceql/peaks/peaks.csv."""

import duckdb
import pyarrow as pa

from traceql.input_file import text
from traceql.peaks.rows import SHIPPED, peak_rows
from traceql.table_head import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    schema = declared_schema(__file__)
    listed = [
        {name: getattr(row, name, position) for name in schema.names}
        for position, row in enumerate(peak_rows(SHIPPED, text(SHIPPED)))
    ]
    return pa.Table.from_pylist(listed, schema)
