# One row per formula that table cost applies.
# @schema reference
# @scope  rank
# @column formula  VARCHAR    Name, as in cost.formula.
# @column roles    VARCHAR[]  Parts of the model that it applies to.
# @column flops    VARCHAR    FLOPs.
# @column bytes    VARCHAR    Compulsory bytes.
# @column source   VARCHAR    Where the formula comes from.

"""Reads cost_formula.csv, beside this file."""

import csv
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.sql.definition import declared_schema

_FORMULAS = Path(__file__).with_suffix(".csv")


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    with _FORMULAS.open(newline="", encoding="utf-8") as file:
        listed = [{**row, "roles": row["roles"].split()} for row in csv.DictReader(file)]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
