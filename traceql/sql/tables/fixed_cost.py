# One row per kind of device and cost that does not depend on the amount of work, where it was measured.
# @schema reference
# @scope  rank
# @column position  BIGINT   Order in which the patterns are tried, from 0.
# @column device    VARCHAR  RE2 regular expression, which may match anywhere in the device's name.
# @column cost      VARCHAR  graph_gap (between two kernels of a replayed graph), all_reduce or all_gather (of a small buffer).
# @column ranks     BIGINT   Ranks that take part; NULL for graph_gap.
# @column ns        DOUBLE   Duration, ns.
# @column source    VARCHAR  Where it was measured.

"""Reads fixed_cost.csv, beside this file."""

import duckdb
import pyarrow as pa

from traceql.sql.definition import csv_table


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    return csv_table(__file__)
