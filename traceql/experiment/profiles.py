"""What the traces of profiled points say, as rows of the tables profile_*."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from traceql.cache import cached_database
from traceql.compare.profile import profile_of
from traceql.compare.setup import is_ignored
from traceql.errors import TraceqlError
from traceql.experiment.schema import PROFILES, Row, insert
from traceql.trace import Trace

_QUERIES = {"profile_mfu": "model.mfu", "profile_bubble": "pp.bubble"}


def add_profiles(
    con: duckdb.DuckDBPyConnection,
    folders: Mapping[int, Path],
    *,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Loads the traces of points, one after another; one that cannot be loaded is noted.

    Args:
        folders: run directories, by point_id.
        say: is told what is loaded.
        warn: is told what cannot be loaded.
    """
    for number, (point_id, folder) in enumerate(folders.items(), start=1):
        say(f"profile {number} of {len(folders)}: {folder.parent.name}")
        try:
            _add_profile(con, point_id, folder)
        except TraceqlError as error:
            warn(f"{folder}: {error}; its profile is left out")
            _note(con, point_id, str(error))
        else:
            _note(con, point_id, None)


def _add_profile(con: duckdb.DuckDBPyConnection, point_id: int, folder: Path) -> None:
    database = cached_database([folder], None)
    profile = profile_of(database)
    for table, name in PROFILES.items():
        rows = profile[name].to_pylist()
        if name == "fact":  # paths and names of the machine stay out, as of a baseline
            rows = [row for row in rows if not is_ignored(row["name"])]
        insert(con, table, [_of(point_id, row) for row in rows])
    with Trace(database) as trace:
        for table, query in _QUERIES.items():
            insert(con, table, [_of(point_id, row) for row in trace.run(query).rows()])


def _of(point_id: int, row: Mapping[str, Any]) -> Row:
    return {"point_id": point_id, **row}


def _note(con: duckdb.DuckDBPyConnection, point_id: int, reason: str | None) -> None:
    row = {"point_id": point_id, "loaded": reason is None, "reason": reason}
    insert(con, "profile_note", [row])
