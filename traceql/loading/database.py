"""Writes what readers yield into DuckDB."""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import duckdb

from traceql import __version__
from traceql.errors import TraceCorrupt
from traceql.layers.grammar import symbols
from traceql.layers.graph_nodes import write_graph_nodes
from traceql.loading.clocks import Extent, Placement, placements
from traceql.loading.ranks import Rank, ranks
from traceql.loading.reading import FileRead
from traceql.resources import QUERIES, SCHEMA_VERSION

_INT64 = range(-(2**63), 2**63)
SOURCE_SCRIPT = QUERIES / "tables" / "00_source.sql"


@dataclass(frozen=True)
class Placed:
    """A file with its rank and its place on the run's time base."""

    file: FileRead
    rank: Rank
    placement: Placement
    first_ts: int | None  # ns in the run's Unix time; None without events


@dataclass(frozen=True)
class _FirstIds:
    """Where the ids of a rank's rows begin."""

    slice: int
    track: int


def create_source_tables(con: duckdb.DuckDBPyConnection) -> None:
    con.begin()  # a commit for each statement would take longer
    con.execute(SOURCE_SCRIPT.read_text())
    con.execute("DELETE FROM traceql_database")
    con.execute("INSERT INTO traceql_database VALUES (?, ?)", [SCHEMA_VERSION, __version__])
    con.commit()


def add_files(con: duckdb.DuckDBPyConnection, files: Sequence[FileRead]) -> None:
    """Appends the files' tables, with ranks and one time base for old and new.

    Raises:
        RankConflict: two files claim one rank.
    """
    placed = _placed(con, files)
    base_ns = _rebase(con, placed)
    firsts = _first_ids(con, placed)
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(_insert, con.cursor(), one, base_ns, first)
            for one, first in zip(placed, firsts, strict=True)
        ]
        for job in jobs:
            job.result()
    con.execute(_WORLD_SIZE)


def classify(con: duckdb.DuckDBPyConnection) -> None:
    """Decides each distinct kernel name by the first rule that matches it, and then its symbol.

    One CASE over all rules with bound patterns: a pattern from a column would be compiled again
    for every row.
    """
    rules = con.execute("SELECT priority, pattern FROM kernel_rule ORDER BY priority").fetchall()
    rule_tests = "WHEN regexp_matches(name, ?) THEN ? " * len(rules)
    symbol_tests = "WHEN category = ? AND regexp_matches(name, ?) THEN ? " * len(symbols())
    con.execute("DELETE FROM kernel_class")
    con.execute(
        f"""
        INSERT INTO kernel_class
        WITH decided AS (
            SELECT name, CASE {rule_tests} END AS priority
            FROM (SELECT DISTINCT name FROM slice WHERE lower(cat) = 'kernel')
        ),
        known AS (
            SELECT name, COALESCE(kernel_rule.category, 'other') AS category, decided.priority
            FROM decided
            LEFT JOIN kernel_rule USING (priority)
        )
        SELECT name, category, priority, CASE {symbol_tests} END
        FROM known
        """,
        [
            *(bound for priority, pattern in rules for bound in (pattern, priority)),
            *(bound for s in symbols() for bound in (s.category, s.pattern, s.letter)),
        ],
    )


def _placed(con: duckdb.DuckDBPyConnection, files: Sequence[FileRead]) -> list[Placed]:
    taken = dict(con.execute("SELECT rank, path FROM trace").fetchall())
    found = ranks([(f.path, f.metadata or {}) for f in files], taken)
    in_order = sorted(zip(files, found, strict=True), key=lambda pair: pair[1].rank)
    extents = [_extent(file) for file, _ in in_order]
    places = placements(extents, _loaded_extents(con))
    return [
        Placed(file, rank, place, _start(extent, place))
        for (file, rank), extent, place in zip(in_order, extents, places, strict=True)
    ]


def _start(extent: Extent, place: Placement) -> int | None:
    return extent.first_ts + place.shift_ns if extent.first_ts <= extent.last_ts else None


def _first_ids(con: duckdb.DuckDBPyConnection, placed: Sequence[Placed]) -> list[_FirstIds]:
    first = _FirstIds(
        _number(con, "SELECT COALESCE(MAX(id) + 1, 0) FROM slice"),
        _number(con, "SELECT COALESCE(MAX(id) + 1, 0) FROM track"),
    )
    firsts = []
    for one in placed:
        firsts.append(first)
        slices, tracks = (one.file.table(name).num_rows for name in ("slice", "track"))
        first = _FirstIds(first.slice + slices, first.track + tracks)
    return firsts


def _extent(file: FileRead) -> Extent:
    base = _base_ns(file.metadata or {})
    if any(ns + (base or 0) not in _INT64 for ns in (0, file.first_ts, file.last_ts)):
        raise TraceCorrupt(f"{file.path}: baseTimeNanoseconds {base} does not fit 64-bit times")
    return Extent(file.first_ts, file.last_ts, base)


def _base_ns(metadata: Mapping[str, Any]) -> int | None:
    """What a file's times count from, where it says so with an integer, or with one as text."""
    given = metadata.get("baseTimeNanoseconds")
    text = given if isinstance(given, str) else str(given)
    return int(text[:30]) if re.fullmatch(r"-?\d+", text) else None


def _loaded_extents(con: duckdb.DuckDBPyConnection) -> list[tuple[Extent, int]]:
    """Of the loaded ranks with events, in their files' own times, and their clocks' shifts."""
    rows = con.execute("""
        SELECT
            MIN(slice.ts) - ANY_VALUE(file_offset_ns),
            MAX(slice.ts + slice.dur) - ANY_VALUE(file_offset_ns),
            ANY_VALUE(base_time_ns + file_offset_ns),
            ANY_VALUE(metadata)
        FROM trace
        JOIN slice USING (rank)
        GROUP BY trace.rank
        ORDER BY trace.rank
    """).fetchall()
    based = [(*row, _base_ns(json.loads(metadata or "{}"))) for *row, metadata in rows]
    return [(Extent(first, last, base), shift - (base or 0)) for first, last, shift, base in based]


def _rebase(con: duckdb.DuckDBPyConnection, placed: Sequence[Placed]) -> int:
    """The run's base time: its first event, of the ranks loaded before and the new ones."""
    before = con.execute("SELECT MIN(base_time_ns) FROM trace").fetchall()[0][0]
    starts = [p.first_ts for p in placed if p.first_ts is not None]
    base_ns = min([*starts, *([] if before is None else [before])], default=0)
    if before is not None and base_ns < before:
        later = [before - base_ns]
        con.execute("UPDATE slice SET ts = ts + ?", later)
        con.execute("UPDATE instant SET ts = ts + ?", later)
        con.execute("UPDATE trace SET file_offset_ns = file_offset_ns + ?", later)
        con.execute("UPDATE trace SET base_time_ns = ?", [base_ns])
    return int(base_ns)


def _insert(con: duckdb.DuckDBPyConnection, placed: Placed, base_ns: int, first: _FirstIds) -> None:
    """One rank's rows, as a transaction of its own."""
    file, rank = placed.file, placed.rank
    offset = placed.placement.shift_ns - base_ns
    bound = {"rank": rank.rank, "offset": offset}
    ids, tracks = {"first_id": first.slice}, {"first_track": first.track}
    con.begin()
    _insert_trace(con, placed, base_ns, offset)
    _insert_from(con, file, "slice", _SLICE, bound | ids | tracks)
    _insert_from(con, file, "activity", _ACTIVITY, ids)
    _insert_from(con, file, "instant", _INSTANT, bound | tracks)
    _insert_from(con, file, "flow", _FLOW, {"rank": rank.rank} | ids)
    _insert_from(con, file, "track", _TRACK, {"rank": rank.rank} | tracks)
    _insert_from(con, file, "count", _COUNT, {"rank": rank.rank})
    _insert_from(con, file, "remark", _REMARK, {"rank": rank.rank})
    _insert_own_remarks(con, placed)
    write_graph_nodes(con, rank.rank, file.path)
    con.commit()


# Where no file names the world size, it is at least the ranks that are there.
_WORLD_SIZE = """
    UPDATE trace SET world_size = GREATEST(world_size, (SELECT COUNT(*) FROM trace));
    UPDATE remark SET total = trace.world_size
    FROM trace
    WHERE trace.rank = remark.rank AND remark.check_name = 'rank of world size';
"""
_SLICE = """
    INSERT INTO slice
    SELECT
        $first_id + index, $rank, cat, name, ts + $offset, dur, pid, tid, $first_track + track,
        $first_id + parent, depth, external_id, correlation, args
    FROM incoming
"""
_ACTIVITY = """
    INSERT INTO activity
    SELECT $first_id + index, device, stream, bytes, grid, block, graph_node_id
    FROM incoming
"""
_INSTANT = """
    INSERT INTO instant
    SELECT $rank, cat, name, ts + $offset, pid, tid, $first_track + track, args
    FROM incoming
"""
_FLOW = "INSERT INTO flow SELECT $rank, $first_id + slice_out, $first_id + slice_in FROM incoming"
_TRACK = """
    INSERT INTO track
    SELECT
        $first_track + track, $rank, pid, tid, process_name, thread_name, process_labels,
        process_sort_index, thread_sort_index
    FROM incoming
"""
_COUNT = "INSERT INTO file_count SELECT $rank, phase, cat, events, dur FROM incoming"
_REMARK = "INSERT INTO remark SELECT $rank, check_name, value, total, ok, note FROM incoming"


def _insert_from(
    con: duckdb.DuckDBPyConnection, file: FileRead, table: str, sql: str, bound: dict[str, int]
) -> None:
    con.register("incoming", file.table(table))
    con.execute(sql, bound)
    con.unregister("incoming")


def _number(con: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(con.execute(sql).fetchall()[0][0])


def _insert_trace(
    con: duckdb.DuckDBPyConnection, placed: Placed, base_ns: int, offset: int
) -> None:
    file, rank = placed.file, placed.rank
    con.execute(
        "INSERT INTO trace VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            rank.rank,
            rank.world_size,
            rank.tp_rank,
            rank.pp_rank,
            rank.dp_rank,
            rank.ep_rank,
            base_ns,
            offset,
            str(file.path),
            file.sha256,
            file.size_bytes,
            file.reader,
            file.format,
            json.dumps(file.metadata),
        ],
    )


def _insert_own_remarks(con: duckdb.DuckDBPyConnection, placed: Placed) -> None:
    rank, place = placed.rank, placed.placement
    con.executemany(
        "INSERT INTO remark VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                rank.rank,
                "rank of world size",
                rank.rank,
                rank.world_size,
                None,
                f"rank from {rank.source}",
            ),
            (rank.rank, "clock shift", place.shift_ns, None, None, place.note),
        ],
    )
