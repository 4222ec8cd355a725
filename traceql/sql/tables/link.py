# One row per kind of link that connects GPUs or machines: its peak bandwidth.
#
# Of the rows of one medium, the first whose pattern matches counts.
# @schema reference
# @scope  rank
# @column position   BIGINT   Order in which the patterns are tried, from 0.
# @column device     VARCHAR  RE2 regular expression, which may match anywhere in the GPU's name; for a network, in the link layer and rate of its adapter.
# @column medium     VARCHAR  fabric (connects all GPUs of a machine), bridge (connects only GPUs that a bridge joins), pcie, or network (connects machines).
# @column link       VARCHAR  Name of the link.
# @column peak_gbps  DOUBLE   Peak in one direction, per GPU or per network adapter, 1e9 bytes per second.
# @column pair_gbps  DOUBLE   Peak between two GPUs in one direction where each pair has a link of its own: n GPUs use (n-1) x pair_gbps; NULL where a switch or bridge gives a pair all of peak_gbps.
# @column source     VARCHAR  Document that states the peak.

"""Reads link.csv, beside this file."""

import duckdb
import pyarrow as pa

from traceql.sql.definition import csv_table


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    return csv_table(__file__)
