# One row per host event, gap cause (host or sync) and kind of step: the time in gaps during which it was the innermost event of the thread that asked for the next kernel.
# @kind   scratch
# @scope  rank
# @needs  gap, slice, step
# @empty_unless gap
# @column cause       VARCHAR  Cause of the gaps: host or sync (see gap.cause).
# @column phase       VARCHAR  Phase of the gap's step (step.phase); NULL if unknown.
# @column graph_mode  VARCHAR  How the gap's step used CUDA graphs (step.graph_mode); NULL if unknown.
# @column slice_id    BIGINT   Host event (slice.id).
# @column ns          BIGINT   Time in gaps during which it was the innermost event, ns.

"""Goes through the events of each such thread, once for each cause and kind of step."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.elapsed import Elapsed, Int64s
from traceql.parts_of_time import starts_of_parts
from traceql.spooled import mapped_columns
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
_GAPS = """
    SELECT
        gap.cause,
        step.phase,
        step.graph_mode,
        DENSE_RANK() OVER (ORDER BY gap.cause, step.phase, step.graph_mode) AS group_number,
        gap.track_id,
        gap.ts,
        gap.dur
    FROM gap
    LEFT JOIN step ON gap.step_id = step.step_id
    WHERE gap.cause IN ('host', 'sync') AND gap.track_id IS NOT NULL
"""
_GROUPS = f"SELECT DISTINCT group_number, cause, phase, graph_mode FROM ({_GAPS}) ORDER BY ALL"
# Events of one thread, without those that have no duration and therefore take no time of a gap.
_OF_TRACK = "FROM slice WHERE track_id = $track AND dur > 0"
_NUMBER = f"SELECT COUNT(*) {_OF_TRACK}"
_EVENTS = f"""
    SELECT id, COALESCE(parent_id, -1) AS parent_id, depth, ts, ts + dur AS end_ts
    {_OF_TRACK} AND ts >= $begin AND ts < $end
"""
_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    gaps = mapped_columns(con, f"SELECT group_number, track_id, ts, dur FROM ({_GAPS})")
    kinds = {number: what for number, *what in con.execute(_GROUPS).fetchall()}
    for track in np.unique(gaps["track_id"]).tolist():
        of_track = rows_where(gaps, gaps["track_id"] == track)
        groups = {}
        for number in np.unique(of_track["group_number"]).tolist():
            own = rows_where(of_track, of_track["group_number"] == number)
            groups[number] = Elapsed.of(own["ts"], own["dur"])
        for number, slice_id, ns in _of_thread(con, track, groups):
            constant = (pa.repeat(pa.scalar(text, pa.string()), len(ns)) for text in kinds[number])
            yield pa.table([*constant, slice_id, ns], schema=_SCHEMA)


def _of_thread(
    con: duckdb.DuckDBPyConnection, track: int, groups: Mapping[int, Elapsed]
) -> Iterator[tuple[int, Int64s, Int64s]]:
    """A group of gaps, events of a thread, and the time in these gaps, ns; each event once."""
    still_open: Columns = {}
    none = np.empty(0, np.int64)
    spent = dict.fromkeys(groups, (none, none))  # so far, in events that are still open
    for begin, end in pairwise(_borders(con, track)):
        asked = {"track": track, "begin": begin, "end": end}
        events = columns_of(con.sql(_EVENTS, params=asked))
        if still_open:
            events = {name: np.append(still_open[name], events[name]) for name in events}
        still_open = rows_where(events, events["end_ts"] > end)
        inside = {
            **events,
            "ts": np.maximum(events["ts"], begin),
            "end_ts": np.minimum(events["end_ts"], end),
        }
        for number, idle in groups.items():
            innermost = _innermost(_during(inside, idle), idle)
            so_far = zip(spent[number], innermost, strict=True)
            slice_id, ns = _added_up(*(np.concatenate(pair) for pair in so_far))
            is_open = np.isin(slice_id, still_open["id"])
            spent[number] = slice_id[is_open], ns[is_open]
            yield number, slice_id[~is_open], ns[~is_open]


def _borders(con: duckdb.DuckDBPyConnection, track: int) -> list[int]:
    """The borders of parts of a thread's time, in which about as many events begin."""
    asked = {"track": track}
    number = con.execute(_NUMBER, asked).fetchall()[0][0]
    return [_FIRST, *starts_of_parts(con, _OF_TRACK, asked, number), _LAST]


def _during(events: Columns, idle: Elapsed) -> Columns:
    """The events during which a gap passes."""
    return rows_where(events, idle.passes(events["ts"], events["end_ts"]))


def _innermost(events: Columns, idle: Elapsed) -> tuple[Int64s, Int64s]:
    """Events of one thread, and times in gaps, ns, during which each is the innermost one.

    An event is there once for each such time; -1 stands for time in none.
    """
    # From its start, an event is the innermost one; from its end, the event around it is.
    ends = np.repeat((False, True), len(events["id"]))
    inside = np.concatenate((events["id"], events["parent_id"]))
    instant = np.concatenate((events["ts"], events["end_ts"]))
    depth = np.concatenate((events["depth"], -events["depth"]))
    order = np.lexsort((depth, ~ends, instant))
    return inside[order][:-1], np.diff(idle.before(instant[order]))


def _added_up(slice_id: Int64s, ns: Int64s) -> tuple[Int64s, Int64s]:
    """The events that took time, sorted, and the sum of each one's times, ns."""
    known = (slice_id >= 0) & (ns > 0)
    found, of = np.unique(slice_id[known], return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, of, ns[known])
    return found, total
