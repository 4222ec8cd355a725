# One row per kind of device, operation and size: how long communication takes undisturbed.
# @kind   scratch
# @scope  rank
# @column position   BIGINT   Order of the rows, from 0.
# @column device     VARCHAR  RE2 regular expression, which may match anywhere in the device's name; devices that NVLink connects.
# @column op         VARCHAR  Operation, as in collective.
# @column ranks      BIGINT   Ranks that take part.
# @column algorithm  VARCHAR  Who carried it out: nccl, or custom (vLLM's all-reduce).
# @column bytes      BIGINT   Size of the whole buffer, bytes.
# @column ns         DOUBLE   Median duration of its kernel on the rank that began it last, ns.
# @column source     VARCHAR  Where it was measured.

"""Reads known_collective.csv, beside this file."""

import duckdb
import pyarrow as pa

from traceql.sql.definition import csv_table


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    return csv_table(__file__)
