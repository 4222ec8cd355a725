# One row per rank, kind of step, gap cause (host or sync) and kind of host event: the idle time that the launching thread (gap.track_id) spent in such events.
#
# The rows of a rank, phase, graph mode and cause add up to the gaps of that cause.
# @scope  rank
# @needs  event_kind, gap, host_name, slice, step, trace
# @column rank        BIGINT   Rank.
# @column phase       VARCHAR  Phase of the gap's step; NULL if unknown.
# @column graph_mode  VARCHAR  How the gap's step used CUDA graphs (step.graph_mode); NULL if unknown.
# @column cause       VARCHAR  Cause of the gaps: host or sync (see gap.cause).
# @column name        VARCHAR  Innermost operator, annotation, Python frame or call that the launching thread was in, without what differs between calls (macro host_name); a text in brackets if it was in none.
# @column cat         VARCHAR  Event category, as in slice; NULL if there was none.
# @column ns          BIGINT   Time in gaps during which this was the innermost event, ns.

"""Goes through the events of each thread that requested kernels, once for each cause and kind of step.

The time of an event is that in gaps during which it was the innermost event of its thread.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa

from traceql.analysis.intervals import Elapsed, Int64s
from traceql.analysis.parts_of_time import starts_of_parts
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import (
    Columns,
    columns_of,
    mapped_columns,
    query_tables,
    rows_where,
    spilled,
)

_TIMES = pa.schema(
    [
        ("cause", pa.string()),
        ("phase", pa.string()),
        ("graph_mode", pa.string()),
        ("slice_id", pa.int64()),
        ("ns", pa.int64()),
    ]
)
_GAPS = """
    SELECT
        gap.cause, step.phase, step.graph_mode,
        DENSE_RANK() OVER (ORDER BY gap.cause, step.phase, step.graph_mode) AS group_number,
        gap.track_id, gap.ts, gap.dur
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
_HOST_GAPS = """
    WITH named AS (
        SELECT
            slice.rank, host_time.phase, host_time.graph_mode, host_time.cause,
            host_name(slice.name) AS name,
            slice.cat,
            SUM(host_time.ns) AS ns
        FROM incoming AS host_time
        INNER JOIN slice ON host_time.slice_id = slice.id
        GROUP BY ALL
    ),
    known AS (
        SELECT rank, phase, graph_mode, cause, SUM(ns) AS ns
        FROM named
        GROUP BY ALL
    ),
    total AS (
        SELECT gap.rank, step.phase, step.graph_mode, gap.cause, SUM(gap.dur) AS ns
        FROM gap
        LEFT JOIN step USING (step_id)
        WHERE gap.cause IN ('host', 'sync')
        GROUP BY ALL
    ),
    -- Other profilers than PyTorch's record no stacks.
    without_stacks AS (
        SELECT rank FROM trace WHERE dialect = 'pytorch'
        EXCEPT
        SELECT slice.rank
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        WHERE event_kind.kind = 'frame'
    )
    SELECT rank, phase, graph_mode, cause, name, cat, CAST(ns AS BIGINT) AS ns FROM named
    UNION ALL
    SELECT
        total.rank, total.phase, total.graph_mode, total.cause,
        CASE
            WHEN total.rank IN (FROM without_stacks)
                THEN '(no event recorded; with Python stacks, the trace would show more)'
            ELSE '(no event recorded)'
        END,
        NULL,
        CAST(total.ns - COALESCE(known.ns, 0) AS BIGINT)
    FROM total
    LEFT JOIN known
        ON total.rank = known.rank
        AND total.phase IS NOT DISTINCT FROM known.phase
        AND total.graph_mode IS NOT DISTINCT FROM known.graph_mode
        AND total.cause = known.cause
    WHERE total.ns > COALESCE(known.ns, 0)
    ORDER BY rank, phase, graph_mode, cause, ns DESC, name
"""
_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    with spilled(con, _times(con)) as times:
        con.register("incoming", times)
        yield from query_tables(con, _HOST_GAPS)
        con.unregister("incoming")


def _times(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    """The time of each event, by cause and kind of step."""
    yield _TIMES.empty_table()
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
            yield pa.table([*constant, slice_id, ns], schema=_TIMES)


def _of_thread(
    con: duckdb.DuckDBPyConnection, track: int, groups: Mapping[int, Elapsed]
) -> Iterator[tuple[int, Int64s, Int64s]]:
    """A group of gaps, events of a thread, and the time in these gaps, ns; each event once."""
    still_open: Columns = {}
    none = np.empty(0, np.int64)
    spent = dict.fromkeys(groups, (none, none))  # so far, in events that are still open
    for begin, end in pairwise(_borders(con, track)):
        parameters = {"track": track, "begin": begin, "end": end}
        events = columns_of(con.sql(_EVENTS, params=parameters))
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
    parameters = {"track": track}
    number = con.execute(_NUMBER, parameters).fetchall()[0][0]
    return [_FIRST, *starts_of_parts(con, _OF_TRACK, parameters, number), _LAST]


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
