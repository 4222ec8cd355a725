# One row per healthy recording, phase and kernel category: which share of the kernel time it takes there.
# @kind   scratch
# @scope  rank
# @column position    BIGINT   Order of the rows, from 0.
# @column device      VARCHAR  RE2 regular expression, which may match anywhere in the device's name.
# @column dtype       VARCHAR  Type of the weights and activations.
# @column parameters  DOUBLE   Parameters of the model, 1e9.
# @column experts     BOOLEAN  Whether the model has experts.
# @column phase       VARCHAR  decode, or prefill (mixed steps too).
# @column category    VARCHAR  Kernel category (kernel.category).
# @column pct         DOUBLE   Of the time of all kernels of the phase but communication and copies, percent.
# @column kernel      VARCHAR  Of experts, what the name of the longest kernel has in it; else empty.
# @column source      VARCHAR  What was recorded.

"""Reads kernel_share.csv, beside this file."""

import duckdb
import pyarrow as pa

from traceql.sql.definition import csv_table


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    return csv_table(__file__)
