"""Hands tables to DuckDB and takes columns from it."""

from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Columns = Mapping[str, npt.NDArray[Any]]


def write_table(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Creates or replaces a table."""
    con.register("incoming", table)
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM incoming")
    con.unregister("incoming")


def columns_of(relation: duckdb.DuckDBPyRelation) -> Columns:
    """All rows, as an array for each column."""
    table = relation.to_arrow_table()
    return {name: table[name].to_numpy() for name in table.column_names}


def rows_where(columns: Columns, kept: npt.NDArray[np.bool_]) -> Columns:
    """The rows for which `kept` is true."""
    return {name: column[kept] for name, column in columns.items()}
