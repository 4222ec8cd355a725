"""The traces of profiled points, as rows of the tables profile_*."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb

from traceql.database.cache import cached_database
from traceql.database.database import Database
from traceql.database.loading.discovery import PEAKS
from traceql.errors import TraceqlError
from traceql.runs.compare.profile import profile_of
from traceql.runs.compare.setup import is_ignored
from traceql.runs.experiment.tables import PROFILES, Profiled, Row, insert

_AT_ONCE = 2  # loads
_DATA_SHEET, _MEASURED = "data sheet", "measured"  # kinds of peaks


def add_profiles(
    con: duckdb.DuckDBPyConnection,
    points: Mapping[int, Profiled],
    *,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Loads the traces of points, two at a time; failures are rows of profile_note.

    Args:
        points: profiled repeats, by point_id.
        say: called with a line about each load.
        warn: called with a line about each failed load.
    """
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
