"""The tables of a database of experiments, their rows, and those of profiled points."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from traceql.database.cache import cached_database
from traceql.database.database import Database
from traceql.database.loading.discovery import PEAKS
from traceql.errors import TraceqlError
from traceql.runs.compare.setup import is_ignored
from traceql.runs.compare.sides import RESULTS, columns_of, profile_of
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
    """The rows, with NULL for values of other programs that do not fit the type of the column."""
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
    """The run directory of a profiled repeat, and measured ceilings of the GPUs of its results."""

    folder: Path
    peaks: Path | None


@dataclass
class Rows:
    """Rows by table of all folders that are read, and complete profiled repeats by point_id."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    profiled: dict[int, Profiled] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> int:
        """Adds a row, and returns its number, from 0."""
        rows = self.tables.setdefault(table, [])
        rows.append(row)
        return len(rows) - 1

    def next_id(self, table: str) -> int:
        return len(self.tables.get(table, ()))


_AT_ONCE = 2  # loads
_DATA_SHEET, _MEASURED = "data sheet", "measured"  # kinds of peaks


def add_profiles(
    con: duckdb.DuckDBPyConnection,
    points: Mapping[int, Profiled],
    *,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Loads the traces of points, by point_id, two at a time; failures are rows of profile_note."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        loading = {id_: pool.submit(_database, profiled) for id_, profiled in points.items()}
        try:
            for number, (point_id, profiled) in enumerate(points.items(), start=1):
                say(f"profile {number} of {len(points)}: {profiled.folder.parent.name}")
                try:
                    peaks = _add_profile(con, point_id, loading[point_id].result())
                except TraceqlError as error:
                    warn(f"{profiled.folder}: {error}; its profile is left out")
                    row = {"loaded": False, "reason": str(error)}
                else:
                    row = {"loaded": True, "peaks": " and ".join(peaks)}
                insert(con, "profile_note", [_of(point_id, row)])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _add_profile(con: duckdb.DuckDBPyConnection, point_id: int, database: Path) -> Sequence[str]:
    """Adds the rows of a point; returns the kinds of known peaks of its GPUs."""
    profile = profile_of(database)
    for table, name in PROFILES.items():
        rows = profile[name].to_pylist()
        if name == "fact":  # without paths and names of the machine
            rows = [row for row in rows if not is_ignored(row["name"])]
        insert(con, table, [_of(point_id, row) for row in rows])
    with Database(database) as trace:
        peaks = [
            row["kind"] for row in trace.select("SELECT DISTINCT kind FROM rank_peak ORDER BY kind")
        ]
        bubbles, utilization = (
            trace.query("pp.bubble"),
            _utilization(trace, measured=_MEASURED in peaks),
        )
        insert(con, "profile_bubble", [_of(point_id, row) for row in bubbles])
        insert(con, "profile_mfu", [_of(point_id, row) for row in utilization])
    return peaks


def _database(profiled: Profiled) -> Path:
    """The loaded traces, with the peaks of their run directory or else of the results."""
    own = (profiled.folder / PEAKS).exists()
    peaks = [profiled.peaks] if profiled.peaks and not own else []
    return cached_database([profiled.folder], None, peaks=peaks)


def _utilization(trace: Database, *, measured: bool) -> list[Row]:
    rows = trace.query("model.mfu", peaks=_DATA_SHEET).rows()
    if not measured:
        return list(rows)
    of_measured = {row["phase"]: row for row in trace.query("model.mfu", peaks=_MEASURED)}
    return [
        {
            **row,
            "measured_mfu_pct": of_measured[row["phase"]]["mfu_pct"],
            "measured_mbu_pct": of_measured[row["phase"]]["mbu_pct"],
        }
        for row in rows
    ]


def _of(point_id: int, row: Mapping[str, Any]) -> Row:
    return {"point_id": point_id, **row}
