"""The parents of all slices of a file, and its arrows, track by track in the order of time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.formats.kineto.streaming import in_order
from traceql.readers.formats.kineto.streaming.scratch import Scratch
from traceql.readers.formats.kineto.streaming.sections import NUMBERED_END, SPAN, Sections
from traceql.readers.nester import Nester
from traceql.readers.nester import Placed as PlacedEvents
from traceql.readers.track_nesting import NONE, SLICE

Int64s = npt.NDArray[np.int64]
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
_BY_FLOW = f"""
    SELECT
        family,
        id,
        phase,
        place,
        is_late,
        COALESCE(bound, {NONE}) AS bound,
        COALESCE(bound_ts, 0) AS bound_ts
    FROM "end"
    LEFT JOIN bound ON number = bound."end"
    ORDER BY family, id, COALESCE(bound_at, ts), COALESCE(binds_late, FALSE) DESC, phase, number
"""


@dataclass(frozen=True)
class Placed:
    """How many slices got their place among the others, and how many of them overlap."""

    slices: int
    overlapping: int


def nest(found: Sections) -> Placed:
    """Finds the parents of all slices and the slices of flow ends.

    They go into the scratch tables placed and bound.
    """
    slices = overlapping = 0
    nesting = Nester()
    for track, ts, dur, number, kind in _by_track(found):
        nested = nesting.add(track, ts, dur, number, kind)
        index = number[kind == SLICE]
        _keep(found, index, nested)
        slices += len(index)
        overlapping += nested.overlapping
    return Placed(slices, overlapping)


def _by_track(found: Sections) -> Iterator[list[Int64s]]:
    """Slices and ends, track by track, in batches, as `Nester` wants them."""
    scratch, tracks = found.scratch, found.tracks.known(list(found.end_places))
    if scratch.is_in_memory:
        yield in_order.by_track(
            scratch.taken("span", SPAN), scratch.rows("end", NUMBERED_END), tracks
        )
        return
    places = pa.table({"place": np.arange(len(tracks)), "track": tracks})
    on_a_track = places.filter(pa.array(tracks != NONE))
    for batch in scratch.ask(
        _BY_TRACK, {"span": SPAN, "end": NUMBERED_END}, place_track=on_a_track
    ):
        yield [batch[name].to_numpy() for name in batch.schema.names]


def _keep(found: Sections, index: Int64s, nested: PlacedEvents) -> None:
    placed = [index, nested.parent, nested.depth]
    found.scratch.add("placed", pa.table(list(map(pa.array, placed)), schema=_PLACED))
    found.scratch.add("bound", pa.table(list(map(pa.array, nested.bound)), schema=_BOUND))


def places_of_slices(found: Sections) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The parent and the depth of the slices of each section, in the order of the file."""
    batches = _by_index(found.scratch)
    left = pa.table({"parent": pa.array([], pa.int64()), "depth": pa.array([], pa.int64())})
    for size in found.slices:
        while len(left) < size and (batch := next(batches, None)) is not None:
            left = pa.concat_tables([left, pa.Table.from_batches([batch])])
        part = left.slice(0, size).combine_chunks()
        left = left.slice(size)
        parent = part["parent"].to_numpy()
        yield pa.array(parent, mask=parent == NONE), part["depth"].combine_chunks()


def _by_index(scratch: Scratch) -> Iterator[pa.RecordBatch]:
    if scratch.is_in_memory:
        return iter(in_order.by_index(scratch.taken("placed", _PLACED)).to_batches())
    return scratch.ask(_BY_INDEX, {"placed": _PLACED})


def ends_by_flow(found: Sections) -> Iterator[pa.RecordBatch]:
    """The ends of flows with their slices, flow by flow, as `Arrows` wants them."""
    scratch = found.scratch
    if scratch.is_in_memory:
        ends, bound = scratch.taken("end", NUMBERED_END), scratch.taken("bound", _BOUND)
        return iter(in_order.by_flow(ends, bound).to_batches())
    return scratch.ask(_BY_FLOW, {"end": NUMBERED_END, "bound": _BOUND})
