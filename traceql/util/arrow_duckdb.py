"""Moves rows between DuckDB and Arrow or numpy."""

from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Columns = Mapping[str, npt.NDArray[Any]]


def create_table(con: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Creates a table with these rows, or replaces it."""
    con.register("incoming", rows)  # found before a table of the user with this name
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM incoming")
    con.unregister("incoming")


def columns_of(relation: duckdb.DuckDBPyRelation) -> Columns:
    """All rows of a relation, as one array per column."""
    table = relation.to_arrow_table()
    return {name: table[name].to_numpy() for name in table.column_names}


def rows_where(columns: Columns, kept: npt.NDArray[np.bool_]) -> Columns:
    """The rows for which `kept` is true, as one array per column."""
    return {name: column[kept] for name, column in columns.items()}


def in_order(columns: Columns, *by: str) -> Columns:
    """The rows sorted by these columns, the first one first; quick if they nearly are already."""
    order = np.lexsort([columns[name] for name in reversed(by)])
    return {name: column[order] for name, column in columns.items()}
