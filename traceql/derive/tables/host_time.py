# One row per host event and gap cause (host or sync): the time in gaps during which it was the innermost event of the launching thread.
# @kind   scratch
# @scope  rank
# @needs  classified_kernel, gap, is_caused_by_host, slice
# @column cause     VARCHAR  Cause of the gaps: host or sync (see gap.cause).
# @column slice_id  BIGINT   Host event (slice.id).
# @column ns        BIGINT   Time in gaps during which it was the innermost event, ns.

"""Goes through the events of each launching thread, once for each cause."""

import duckdb
import numpy as np
import pyarrow as pa

from traceql.arrow_duckdb import Columns, columns_of, rows_where
from traceql.elapsed import Elapsed
from traceql.table_head import declared_schema

_SCHEMA = declared_schema(__file__)
# The thread of a gap is the one that launched the kernel which ended it.
_GAPS = """
    SELECT gap.cause = 'sync' AS is_sync, slice.track_id, gap.ts, gap.dur
    FROM gap
    INNER JOIN classified_kernel AS kernel ON gap.next_kernel_id = kernel.id
    INNER JOIN slice ON kernel.launch_id = slice.id
    WHERE is_caused_by_host(gap.cause)
"""
_EVENTS = """
    SELECT id, COALESCE(parent_id, -1) AS parent_id, depth, track_id, ts, ts + dur AS end_ts
    FROM slice
    WHERE dur > 0 AND track_id IN (SELECT unnest($tracks))
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    gaps = columns_of(con.sql(_GAPS))
    tracks = np.unique(gaps["track_id"]).tolist()
    events = columns_of(con.sql(_EVENTS, params={"tracks": tracks}))
    tables = [_SCHEMA.empty_table()]
    for track in tracks:
        on_track = rows_where(events, events["track_id"] == track)
        of_track = rows_where(gaps, gaps["track_id"] == track)
        for cause, is_sync in (("host", False), ("sync", True)):
            own = of_track["is_sync"] == is_sync
            idle = Elapsed.of(of_track["ts"][own], of_track["dur"][own])
            tables.append(_host_time(cause, on_track, idle))
    return pa.concat_tables(tables)


def _host_time(cause: str, events: Columns, idle: Elapsed) -> pa.Table:
    """The rows of one thread and one cause.

    Args:
        events: the events of the thread.
        idle: the gaps of the cause that end with a kernel which the thread launched.
    """
    begun, ended = idle.before(events["ts"]), idle.before(events["end_ts"])
    touching = ended > begun
    events = rows_where(events, touching)
    # From its start, an event is the innermost one; from its end, the event around it is.
    ends = np.repeat((False, True), len(events["id"]))
    inside = np.concatenate((events["id"], events["parent_id"]))
    instant = np.concatenate((events["ts"], events["end_ts"]))
    before = np.concatenate((begun[touching], ended[touching]))
    depth = np.concatenate((events["depth"], -events["depth"]))
    order = np.lexsort((depth, ~ends, instant))
    inside, spent = inside[order][:-1], np.diff(before[order])
    slice_id, of = np.unique(inside, return_inverse=True)
    ns = np.zeros(len(slice_id), np.int64)
    np.add.at(ns, of, spent)
    known = (slice_id >= 0) & (ns > 0)
    rows = pa.array(slice_id[known]), pa.array(ns[known])
    return pa.table([pa.repeat(cause, len(rows[0])), *rows], schema=_SCHEMA)
