"""Nests all slices of a file track by track, and binds its flows to slices."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from traceql.readers.formats.kineto.streaming.sections import NUMBERED_END, SPAN, Sections
from traceql.readers.nester import NONE, SLICE, Nester
from traceql.readers.tables import FLOW
from traceql.readers.timeline import FLOW_BEGINS, FLOW_ENDS, FLOW_FINISHES, FLOW_PASSES

_BEGINS, _PASSES, _FINISHES = map(FLOW_ENDS.index, (FLOW_BEGINS, FLOW_PASSES, FLOW_FINISHES))
_PLACED = pa.schema([(name, pa.int64()) for name in ("index", "parent", "depth")])
_BOUND = pa.schema(
    [
        *((name, pa.int64()) for name in ("end", "bound", "bound_ts", "bound_at")),
        ("binds_late", pa.bool_()),
    ]
)
_BY_TRACK = """
    SELECT track, ts, dur, number, 0 AS kind
    FROM span
    UNION ALL
    SELECT track, ts, 0, number, 1 + is_late::BIGINT
    FROM "end"
    INNER JOIN place_track USING (place)
    ORDER BY track, ts, kind > 0, dur DESC, number
"""
_BY_INDEX = "SELECT parent, depth FROM placed ORDER BY index"
# Ends of flows that have a begin, by place.
_PLACES = f"""
    SELECT place, COUNT(*) FILTER (phase = {_FINISHES}) AS finishes
    FROM (FROM "end" QUALIFY BOOL_OR(phase = {_BEGINS}) OVER (PARTITION BY family, id))
    GROUP BY place
"""
# An arrow begins at the first begin of its flow that is bound to a slice, or at the last pass
# since. If an end that is bound to the next slice comes first, it begins at the first slice of
# the file, as in the trace processor. Few flows have passes, and only these need a window.
_ARROWS = f"""
    WITH numbered AS (
        SELECT
            family, id, phase, bound, {{'slice': bound, 'ts': bound_ts}} AS target,
            bound IS NOT NULL AND (phase = {_BEGINS} OR is_late) AS starts,
            ROW_NUMBER() OVER (
                PARTITION BY family, id
                ORDER BY COALESCE(bound_at, ts), COALESCE(binds_late, FALSE) DESC, phase, number
            ) AS n
        FROM "end"
        LEFT JOIN bound ON number = bound."end"
    ),
    flow AS (
        SELECT
            family, id,
            MIN(n) FILTER (starts) AS n,
            arg_min(CASE phase WHEN {_BEGINS} THEN target ELSE first_slice END, n)
                FILTER (starts) AS origin,
            BOOL_OR(phase = {_PASSES}) AS passes
        FROM numbered
        CROSS JOIN (FROM first_slice)
        GROUP BY family, id
        HAVING BOOL_OR(phase = {_BEGINS})
    ),
    drawn AS (
        SELECT family, id, phase, numbered.n, target, origin, passes
        FROM numbered
        INNER JOIN flow USING (family, id)
        WHERE bound IS NOT NULL AND phase <> {_BEGINS} AND numbered.n >= flow.n
    ),
    since AS (
        SELECT target, origin AS since FROM drawn WHERE NOT passes
        UNION ALL
        SELECT
            target,
            COALESCE(
                LAST_VALUE(CASE WHEN phase = {_PASSES} THEN target END IGNORE NULLS) OVER (
                    PARTITION BY family, id
                    ORDER BY n
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ),
                origin
            )
        FROM drawn
        WHERE passes
    )
    SELECT
        (CASE WHEN since.ts <= target.ts THEN since ELSE target END).slice AS slice_out,
        (CASE WHEN since.ts <= target.ts THEN target ELSE since END).slice AS slice_in
    FROM since
    ORDER BY ALL
"""


@dataclass(frozen=True)
class Placed:
    """The number of nested slices, and of those that overlap."""

    slices: int
    overlapping: int


def nest(found: Sections) -> Placed:
    """Writes the parents of all slices into placed, and the slices of flow ends into bound."""
    slices = overlapping = 0
    nesting = Nester()
    tracks = found.tracks.known(list(found.end_places))
    places = pa.table({"place": np.arange(len(tracks)), "track": tracks})
    on_a_track = places.filter(pa.array(tracks != NONE))
    for batch in found.scratch.query(
        _BY_TRACK, {"span": SPAN, "end": NUMBERED_END}, kept="end", place_track=on_a_track
    ):
        track, ts, dur, number, kind = (column.to_numpy() for column in batch.columns)
        nested = nesting.add(track, ts, dur, number, kind)
        index = number[kind == SLICE]
        placed = [index, nested.parent, nested.depth]
        found.scratch.add("placed", pa.table(list(map(pa.array, placed)), schema=_PLACED))
        found.scratch.add("bound", pa.table(list(map(pa.array, nested.bound)), schema=_BOUND))
        slices += len(index)
        overlapping += nested.overlapping
    return Placed(slices, overlapping)


def places_of_slices(found: Sections) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The parent and the depth of the slices of each section, in the order of the file."""
    batches = found.scratch.query(_BY_INDEX, {"placed": _PLACED})
    left = pa.table({"parent": pa.array([], pa.int64()), "depth": pa.array([], pa.int64())})
    for size in found.slices:
        while len(left) < size and (batch := next(batches, None)) is not None:
            left = pa.concat_tables([left, pa.Table.from_batches([batch])])
        part = left.slice(0, size).combine_chunks()
        left = left.slice(size)
        parent = part["parent"].to_numpy()
        yield pa.array(parent, mask=parent == NONE), part["depth"].combine_chunks()


def flows(found: Sections) -> Iterator[pa.Table]:
    """The arrows, as tables FLOW of the contract. The slices have to be nested before."""
    index, ts = found.first
    first = pa.table({"first_slice": pa.array([{"slice": index, "ts": ts}])})
    tables = {"end": NUMBERED_END, "bound": _BOUND}
    for batch in found.scratch.query(_ARROWS, tables, first_slice=first):
        yield pa.table(batch.columns, schema=FLOW)


def finishes(found: Sections) -> int:
    """The number of finishes of flows that have a begin; the places of such flows become tracks."""
    batches = list(found.scratch.query(_PLACES, {"end": NUMBERED_END}, kept="end"))
    schema = pa.schema([("place", pa.int64()), ("finishes", pa.int64())])
    places = pa.Table.from_batches(batches, schema)
    found.number_tracks_of(set(places["place"].to_pylist()))
    return sum(places["finishes"].to_pylist())
