"""What a comparison needs of one run: small tables, made by the SQL files in the folder profile.

They are medians and sums of strata: steps of one phase, one size and one length of the KV cache,
which can be compared with the same stratum of another run.
"""

from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from traceql.database.opening import opened_database
from traceql.database.tables import Tables
from traceql.errors import DatabaseError
from traceql.util.text import (
    Column,
    CommentHead,
    comment_head,
    described_columns,
    source_text,
)

if TYPE_CHECKING:
    import pyarrow as pa

    Profile = Mapping[str, pa.Table]

_FOLDER = Path(__file__).parent / "profile"
# In the order in which they need each other.
_STEPS = ("unit", "unit_step", "member", "time_of_unit", "stratum")
RESULTS = (
    "stratum",
    "metric",
    "typical_part",
    "layer",
    "kernel_use",
    "lost",
    "window_part",
    "unnamed_kernel",
    "latency",
    "fact",
)
_OBJECTS = {"view": "VIEW", "step": "TABLE", "result": "TABLE"}


def profile_of(database: Path) -> "Profile":
    """The tables of one run, by name.

    Raises:
        DatabaseError: the file is not a database of this version of traceql, or cannot be opened.
    """
    con = opened_database(
        database, otherwise="load traces with traceql load TRACE... -o RUN.duckdb"
    )
    names = list(dict.fromkeys((*_STEPS, *RESULTS)))
    with closing(Tables(database, con)) as tables:
        try:
            con = tables.connection(*map(_sql, names))
            for name in names:
                kind = _OBJECTS[_head(name).only("kind")]
                con.execute(f"CREATE TEMP {kind} {name} AS {_sql(name)}")
            found = {name: con.sql(f"SELECT * FROM temp.{name}") for name in RESULTS}
            return {name: rows.to_arrow_table() for name, rows in found.items()}
        except duckdb.Error as error:
            raise DatabaseError(f"{database} cannot be compared: {error}") from None


def columns_of(name: str) -> tuple[Column, ...]:
    """The columns that the file of a table declares."""
    return described_columns(name, _head(name))


def summary_of(name: str) -> str:
    """What one row of a table is."""
    return _head(name).summary


@cache
def _sql(name: str) -> str:
    return source_text(_FOLDER / f"{name}.sql")


@cache
def _head(name: str) -> CommentHead:
    return comment_head(name, _sql(name), ("kind", "column"))
