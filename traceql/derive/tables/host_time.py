# One row per host event, gap cause (host or sync) and kind of step: the time in gaps during which it was the innermost event of the thread that asked for the next kernel.
# @kind   scratch
# @scope  rank
# @needs  gap, is_caused_by_host, slice, step
# @column cause       VARCHAR  Cause of the gaps: host or sync (see gap.cause).
# @column phase       VARCHAR  Phase of the gap's step (step.phase); NULL if unknown.
# @column graph_mode  VARCHAR  How the gap's step used CUDA graphs (step.graph_mode); NULL if unknown.
# @column slice_id    BIGINT   Host event (slice.id).
# @column ns          BIGINT   Time in gaps during which it was the innermost event, ns.

"""Goes through the events of each such thread, once for each cause and kind of step."""

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.elapsed import Elapsed, Int64s
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
    WHERE is_caused_by_host(gap.cause) AND gap.track_id IS NOT NULL
"""
_GROUPS = f"SELECT DISTINCT group_number, cause, phase, graph_mode FROM ({_GAPS}) ORDER BY ALL"
_EVENTS = """
    SELECT id, COALESCE(parent_id, -1) AS parent_id, depth, track_id, ts, ts + dur AS end_ts
    FROM slice
    WHERE dur > 0 AND track_id IN (SELECT unnest($tracks))
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    gaps = columns_of(con.sql(f"SELECT group_number, track_id, ts, dur FROM ({_GAPS})"))
    groups = con.execute(_GROUPS).fetchall()
    tracks = np.unique(gaps["track_id"]).tolist()
    events = columns_of(con.sql(_EVENTS, params={"tracks": tracks}))
    tables = [_SCHEMA.empty_table()]
    for track in tracks:
        of_track = rows_where(gaps, gaps["track_id"] == track)
        on_track = rows_where(events, events["track_id"] == track)
        touching = _during(on_track, Elapsed.of(of_track["ts"], of_track["dur"]))
        for number, *what in groups:
            own = rows_where(of_track, of_track["group_number"] == number)
            if len(own["ts"]):
                idle = Elapsed.of(own["ts"], own["dur"])
                slice_id, ns = _innermost(_during(touching, idle), idle)
                constant = (pa.repeat(pa.scalar(text, pa.string()), len(ns)) for text in what)
                tables.append(pa.table([*constant, slice_id, ns], schema=_SCHEMA))
    return pa.concat_tables(tables)


def _during(events: Columns, idle: Elapsed) -> Columns:
    """The events during which a gap passes."""
    return rows_where(events, idle.between(events["ts"], events["end_ts"]) > 0)


def _innermost(events: Columns, idle: Elapsed) -> tuple[Int64s, Int64s]:
    """Events of one thread, and the time in gaps during which each is the innermost one, ns."""
    # From its start, an event is the innermost one; from its end, the event around it is.
    ends = np.repeat((False, True), len(events["id"]))
    inside = np.concatenate((events["id"], events["parent_id"]))
    instant = np.concatenate((events["ts"], events["end_ts"]))
    depth = np.concatenate((events["depth"], -events["depth"]))
    order = np.lexsort((depth, ~ends, instant))
    inside, spent = inside[order][:-1], np.diff(idle.before(instant[order]))
    slice_id, of = np.unique(inside, return_inverse=True)
    ns = np.zeros(len(slice_id), np.int64)
    np.add.at(ns, of, spent)
    known = (slice_id >= 0) & (ns > 0)
    return slice_id[known], ns[known]
