# One row per formula that table cost applies.
# @schema reference
# @scope  rank
# @column formula  VARCHAR    Name, as in cost.formula.
# @column roles    VARCHAR[]  Parts of the model that it applies to.
# @column flops    VARCHAR    FLOPs.
# @column bytes    VARCHAR    Compulsory bytes.
# @column source   VARCHAR    Where the formula comes from.

"""Reads cost_formula.csv, beside this file."""

import duckdb
import pyarrow as pa

from traceql.sql.definition import csv_table


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    return csv_table(__file__)
