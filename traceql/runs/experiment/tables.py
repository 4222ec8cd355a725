"""The tables of a database of experiments, and the rows that fill them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from traceql.runs.compare.profile import RESULTS, columns_of
from traceql.runs.experiment.measurements import finite_number
from traceql.util.arrow_duckdb import create_table
from traceql.util.text import (
    Column,
    CommentHead,
    comment_head,
    described_columns,
    source_text,
)

FOLDER = Path(__file__).parent / "tables"
FILLED = (
    "experiment", "point", "start", "repeat", "measurement", "median_place", "profile_note",
    "profile_mfu", "profile_bubble",
)  # fmt: skip
FITTED = ("fit", "fit_point", "speedup", "gain")
PROFILES = {f"profile_{name}": name for name in RESULTS}
_POINT = Column("point_id", "BIGINT", "Point.")

Row = Mapping[str, Any]


def columns(table: str) -> tuple[Column, ...]:
    """The columns of a table."""
    if table in PROFILES:
        return (_POINT, *columns_of(PROFILES[table]))
    return described_columns(table, head(table))


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Creates all tables that Python fills, without rows."""
    for table in (*FILLED, *FITTED, *PROFILES):
        declared = ", ".join(f'"{one.name}" {one.type}' for one in columns(table))
        con.execute(f"CREATE TABLE {table} ({declared})")


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: list[Row]) -> None:
    """Adds rows to a table; missing columns are NULL."""
    if not rows:
        return
    import pyarrow as pa

    names = [one.name for one in columns(table)]
    given = pa.table({name: [row.get(name) for row in rows] for name in names})
    create_table(con, "incoming_rows", given)
    con.execute(f"INSERT INTO {table} BY NAME FROM incoming_rows")
    con.execute("DROP TABLE incoming_rows")


def storable(table: str, rows: Iterable[Row]) -> list[Row]:
    """The rows, with NULL for values that do not fit the type of the column.

    Documents of other programs may have them: a list instead of a text, an infinite number.
    """
    types = {one.name: one.type for one in columns(table)}
    return [{name: _storable(value, types[name]) for name, value in row.items()} for row in rows]


def _storable(value: Any, type_: str) -> Any:
    if type_ == "VARCHAR":
        return value if isinstance(value, str) else None
    if type_ == "BIGINT":
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return value if is_integer and -(2**63) <= value < 2**63 else None
    if type_ == "DOUBLE":
        return finite_number(value)
    return value


def derive(con: duckdb.DuckDBPyConnection, table: str) -> None:
    """Makes a table from others, by the statement in its file."""
    con.execute(f"CREATE TABLE {table} AS {_source(table)}")


@cache
def head(table: str) -> CommentHead:
    return comment_head(table, _source(table), ("column",))


@cache
def _source(table: str) -> str:
    return source_text(FOLDER / f"{table}.sql")


@dataclass(frozen=True)
class Profiled:
    """The profiled repeat of a point.

    Attributes:
        folder: its run directory.
        peaks: measured ceilings of the GPUs, if the folder of results has them.
    """

    folder: Path
    peaks: Path | None


@dataclass
class Rows:
    """Rows of the tables of all folders that are read, with one numbering.

    Attributes:
        tables: rows by table.
        profiled: complete profiled repeats, by point_id.
    """

    tables: dict[str, list[Row]] = field(default_factory=dict)
    profiled: dict[int, Profiled] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> int:
        """Adds a row, and returns its number, from 0."""
        rows = self.tables.setdefault(table, [])
        rows.append(row)
        return len(rows) - 1

    def next_id(self, table: str) -> int:
        return len(self.tables.get(table, ()))
