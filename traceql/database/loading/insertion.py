"""Inserts the rows of traces and profiles into the database, on one time base."""

import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from traceql.database.loading.rank_rows import rank_checks, rank_notes, renumber
from traceql.database.loading.ranks import Rank, Start, ranks, require_no_duplicates
from traceql.database.loading.reading import FileRead
from traceql.database.loading.recordings import (
    loaded_recordings,
    new_recordings,
)
from traceql.database.loading.run_directory import RunDirectory
from traceql.database.loading.run_files import write_graph_nodes
from traceql.database.loading.time_base import Extent, Placement, placements
from traceql.errors import ProfileSkipped, TraceCorrupt
from traceql.readers.tables import SCHEMAS
from traceql.sql.execute import create_sources
from traceql.sql.second_connection import second_connection
from traceql.util.files import path_text
from traceql.util.resources import SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    from traceql.readers.ncu.values import Profile

_LAUNCH = """
    INSERT INTO profiled_launch
    SELECT
        $first + index, $file, number, process_id, device, device_name, compute_capability,
        context, stream, name, kind, grid, block, ranges
    FROM incoming
"""
_METRIC = """
    INSERT INTO kernel_metric
    SELECT $first + launch, section, metric, unit, value, text, file_unit, step
    FROM incoming
"""


@dataclass(frozen=True)
class ProfilesRead:
    """Files of Nsight Compute."""

    new: Sequence["Profile"]
    known: Sequence[Path]  # with the content of a loaded file, or of another new one
    skipped: Sequence[ProfileSkipped]  # an error for each file that cannot be read here


def read_profiles(
    files: Sequence[Path], *, named: Collection[Path], loaded: Collection[str]
) -> ProfilesRead:
    """Reads the files.

    Args:
        named: files that the user named: an unreadable one is an error, whereas a report beside
            traces is skipped.

    Raises:
        TraceCorrupt: a file cannot be used.
    """
    if not files:  # without importing what reads them
        return ProfilesRead([], [], [])
    from traceql.readers.ncu.read import read_profile

    new: dict[str, Profile] = {}
    known: list[Path] = []
    skipped: list[ProfileSkipped] = []
    for file in files:
        try:
            profile = read_profile(file)
        except ProfileSkipped as error:
            if file in named:
                raise
            skipped.append(error)
            continue
        if profile.sha256 in loaded or profile.sha256 in new:
            known.append(file)
        else:
            new[profile.sha256] = profile
    return ProfilesRead([*new.values()], known, skipped)


def add_profiles(con: duckdb.DuckDBPyConnection, profiles: Sequence["Profile"]) -> None:
    """Adds the launches and metrics of these files."""
    for profile in profiles:
        file, first = _next_id(con, "profile_file"), _next_id(con, "profiled_launch")
        about = [file, path_text(profile.path), profile.sha256, profile.size_bytes, profile.page]
        con.execute("INSERT INTO profile_file VALUES (?, ?, ?, ?, ?)", about)
        con.register("incoming", profile.launches)
        con.execute(_LAUNCH, {"first": first, "file": file})
        con.register("incoming", profile.metrics)
        con.execute(_METRIC, {"first": first})
        con.unregister("incoming")
        con.executemany(
            "INSERT INTO profile_check VALUES (?, ?, ?, ?, ?, ?)",
            [(file, r.check_name, r.value, r.total, r.ok, r.note) for r in profile.remarks],
        )


_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class PlacedFile:
    """A file with its rank and the shift of its times to the run's time base."""

    file: FileRead
    rank: Rank
    placement: Placement
    first_ts: int | None  # time of its first event after the shift, ns; None without events


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Creates missing source tables, and records this version in the database."""
    create_sources(con)
    con.begin()
    con.execute("DELETE FROM traceql_database")
    written = [SCHEMA_VERSION, __version__, token_hex(8)]
    con.execute("INSERT INTO traceql_database VALUES (?, ?, ?)", written)
    con.commit()


def add_files(
    con: duckdb.DuckDBPyConnection, files: Sequence[FileRead], runs: Mapping[Path, RunDirectory]
) -> list[str]:
    """Adds the rows of the files, with their ranks, on one time base with the rows before them.

    Returns:
        Sentences about how the ranks were found.

    Raises:
        RankConflict: two files claim one rank.
    """
    placed, notes = _placed(con, files, runs)
    base_ns = _rebase(con, placed)
    first_slices = _first_ids(con, "slice", placed)
    first_tracks = _first_ids(con, "track", placed)
    # With more than one thread, an INSERT compresses most rows twice: by thread, then in order.
    threads = _number(con, "SELECT current_setting('threads')")
    con.execute(f"SET threads = {max(1, threads // max(1, len(placed)))}")
    with ThreadPoolExecutor() as pool:
        job: Future[None] | None = None
        for one, slice_id, track_id in zip(placed, first_slices, first_tracks, strict=True):
            own = second_connection(con), one, base_ns, slice_id, track_id
            job = pool.submit(_insert, *own, after=job)
        if job:
            job.result()
    con.execute(f"SET threads = {threads}")
    con.execute(_WORLD_SIZE)
    return notes


def _first_ids(
    con: duckdb.DuckDBPyConnection, table: str, placed: Sequence[PlacedFile]
) -> list[int]:
    """The first id of each file's rows; counted before any insertion, which removes the rows."""
    first = _next_id(con, table)
    counts = [one.file.rows(table) for one in placed]
    return [first + before for before in accumulate(counts, initial=0)][:-1]


def _placed(
    con: duckdb.DuckDBPyConnection, files: Sequence[FileRead], runs: Mapping[Path, RunDirectory]
) -> tuple[list[PlacedFile], list[str]]:
    loaded = loaded_recordings(con)
    require_no_duplicates(
        [
            *(Start(str(one.path), one.facts) for one in loaded),
            *(Start(str(file.path), file.facts, file.first_ts) for file in files),
        ]
    )
    recordings = [*loaded, *new_recordings(con, files, runs)]
    found = ranks(recordings)
    renumber(con, loaded, found[: len(loaded)])
    # Host processes come after the ranks.
    in_order = sorted(
        zip(files, found[len(loaded) :], strict=True),
        key=lambda pair: (pair[1].rank is None, pair[1].rank or 0),
    )
    extents = []
    for file, _ in in_order:
        base = file.facts.base_time_ns
        if any(ns + (base or 0) not in _INT64 for ns in (0, file.lowest_ts, file.highest_ts)):
            raise TraceCorrupt(
                f"{file.path}: baseTimeNanoseconds {base} makes times exceed 64 bits"
            )
        extents.append(Extent(file.first_ts, file.last_ts, base))
    before = [
        (one.extent, one.shift_ns)
        for one in loaded
        if one.rank is not None and not one.extent.is_empty
    ]
    placed = [
        PlacedFile(file, rank, place, None if extent.is_empty else extent.first_ts + place.shift_ns)
        for (file, rank), extent, place in zip(
            in_order, extents, placements(extents, before), strict=True
        )
    ]
    return placed, list(rank_notes(recordings, found))


def _rebase(con: duckdb.DuckDBPyConnection, placed: Sequence[PlacedFile]) -> int:
    """The run's base time: the time of its first event, in the loaded ranks and the new ones.

    If it is earlier than before, the times of the loaded ranks are shifted.
    """
    before = con.execute("SELECT MIN(base_time_ns) FROM trace").fetchall()[0][0]
    starts = [p.first_ts for p in placed if p.first_ts is not None]
    base_ns = min([*starts, *([] if before is None else [before])], default=0)
    if before is not None and base_ns < before:
        later = before - base_ns
        for table in ("slice", "instant", "counter"):
            con.execute(f"UPDATE {table} SET ts = ts + {later}")
        con.execute(
            f"UPDATE trace SET file_offset_ns = file_offset_ns + {later}, base_time_ns = {base_ns}"
        )
    return int(base_ns)


def _insert(
    con: duckdb.DuckDBPyConnection,
    placed: PlacedFile,
    base_ns: int,
    first_id: int,
    first_track: int,
    after: Future[None] | None,
) -> None:
    """Inserts the rows of one rank in one transaction.

    Args:
        after: the insertion of the rank before it, whose rows come first in every table.
    """
    file, rank, shift = placed.file, placed.rank, placed.placement
    offset = shift.shift_ns - base_ns
    ids = {"first_id": first_id, "first_track": first_track}
    values = {"rank": rank.rank, "offset": offset, **ids}
    con.begin()
    for table, sql in _INSERTS.items():
        # One statement inserts all parts of a table, so that row groups span parts.
        batches = (batch for part in file.take(table) for batch in part.to_batches())
        con.register("incoming", pa.RecordBatchReader.from_batches(SCHEMAS[table], batches))
        con.execute(sql, {name: value for name, value in values.items() if f"${name}" in sql})
        con.unregister("incoming")
    row = [
        *(rank.rank, rank.world_size, rank.tp_rank, rank.pp_rank, rank.dp_rank, rank.ep_rank),
        *(_device_name(con, placed), base_ns, offset, str(file.path), file.sha256),
        *(file.size_bytes, file.reader, file.format, file.dialect, json.dumps(file.metadata)),
    ]
    con.execute(f"INSERT INTO trace VALUES ({', '.join('?' * len(row))})", row)
    clock = (rank.rank, "clock shift", shift.shift_ns, None, None, shift.note)
    checks = [*rank_checks(rank, file.path), clock]
    con.executemany("INSERT INTO load_check VALUES (?, ?, ?, ?, ?, ?)", checks)
    if rank.rank is not None:
        write_graph_nodes(con, rank.rank, file.path)
    if after:
        after.result()
    con.commit()


def _device_name(con: duckdb.DuckDBPyConnection, placed: PlacedFile) -> str | None:
    """The name of the first GPU that ran an activity of a rank."""
    rank, names = placed.rank.rank, placed.file.facts.device_names
    if rank is None:
        return None
    least = "SELECT COALESCE(MIN(COALESCE(device, pid, -1)), -1)"
    sql = f"{least} FROM activity JOIN slice USING (id) WHERE rank = {rank}"
    return names.get(_number(con, sql), "").strip() or None


# If no file states the world size, it is the number of ranks that are loaded.
_WORLD_SIZE = """
    UPDATE trace SET world_size = GREATEST(world_size, (SELECT COUNT(rank) FROM trace))
    WHERE rank IS NOT NULL;
    UPDATE load_check SET total = trace.world_size
    FROM trace
    WHERE trace.rank = load_check.rank AND load_check.check_name = 'rank of world size';
"""
_INSERTS = {
    "slice": """
        INSERT INTO slice
        SELECT
            $first_id + index, $rank, cat, name, ts + $offset, dur, pid, tid, $first_track + track,
            $first_id + parent, depth, external_id, correlation, args
        FROM incoming
    """,
    "activity": """
        INSERT INTO activity
        SELECT $first_id + index, device, stream, bytes, grid, block, graph_node_id
        FROM incoming
    """,
    "instant": """
        INSERT INTO instant
        SELECT $rank, cat, name, ts + $offset, pid, tid, $first_track + track, args
        FROM incoming
    """,
    "counter": """
        INSERT INTO counter
        SELECT $rank, name, unit, ts + $offset, value, $first_track + track
        FROM incoming
    """,
    "flow": """
        INSERT INTO flow SELECT $rank, $first_id + slice_out, $first_id + slice_in FROM incoming
    """,
    "track": """
        INSERT INTO track
        SELECT
            $first_track + track, $rank, pid, tid, process_name, thread_name, process_labels,
            process_sort_index, thread_sort_index
        FROM incoming
    """,
    "count": "INSERT INTO file_count SELECT $rank, phase, cat, events, dur FROM incoming",
    "load_check": """
        INSERT INTO load_check SELECT $rank, check_name, value, total, ok, note FROM incoming
    """,
}


def _number(con: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(con.execute(sql).fetchall()[0][0])


def _next_id(con: duckdb.DuckDBPyConnection, table: str) -> int:
    return _number(con, f"SELECT COALESCE(MAX(id) + 1, 0) FROM {table}")
