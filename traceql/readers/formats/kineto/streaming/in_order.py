"""Rows of tables in memory, in the orders in which nested.py asks DuckDB for those on disk.

For a usual recording it takes less time than DuckDB needs to start.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.track_nesting import END, NONE, SLICE

Int64s = npt.NDArray[np.int64]


def by_track(span: pa.Table, ends: pa.Table, track_of_place: Int64s) -> list[Int64s]:
    """Track, start, duration, number and kind of slices and of the ends that are on a track.

    Those of a track follow each other by time; slices come before ends, the longest first.

    Args:
        span: all slices, in the order of the file, with the columns `SPAN`.
        ends: all ends, in the order of the file, with the columns `NUMBERED_END`.
        track_of_place: the track of each place of ends, or -1.
    """
    end_track = track_of_place[ends["place"].to_numpy()]
    ends = ends.filter(pa.array(end_track != NONE))
    slices = [span[name].to_numpy() for name in ("track", "ts", "dur", "number")]
    late = ends["is_late"].to_numpy().astype(np.int64)
    of_ends = [
        end_track[end_track != NONE],
        ends["ts"].to_numpy(),
        np.zeros(len(ends), np.int64),
        ends["number"].to_numpy(),
        END + late,
    ]
    kinds = np.full(len(span), SLICE)
    columns = [np.concatenate(pair) for pair in zip([*slices, kinds], of_ends, strict=True)]
    del span, ends, slices, of_ends, kinds  # all rows are here twice, if there is no other owner
    order = _order_of(*columns)
    return [columns.pop(0)[order] for _ in range(len(columns))]


def _order_of(track: Int64s, ts: Int64s, dur: Int64s, _number: Int64s, kind: Int64s) -> Int64s:
    return _in_order(np.where(kind == SLICE, -dur, 1), ts, track)


def _in_order(last: Int64s, *first: Int64s) -> Int64s:
    """What `np.lexsort` gives, faster if `last` is in order already, as in most recordings."""
    order = np.lexsort(first)
    same = np.logical_and.reduce([np.diff(column[order]) == 0 for column in first])
    if (same & (np.diff(last[order]) < 0)).any():
        order = np.lexsort((last, *first))
    return order


def by_index(placed: pa.Table) -> pa.Table:
    """The parent and the depth of each slice, in the order of the slices.

    Args:
        placed: one row for each slice, with its index.
    """
    index = placed["index"].to_numpy()
    found = {}
    for name in ("parent", "depth"):
        found[name] = np.empty(len(index), np.int64)
        found[name][index] = placed[name].to_numpy()
    return pa.table(found)


def by_flow(ends: pa.Table, bound: pa.Table) -> pa.Table:
    """The ends of flows with their slices, flow by flow, in the order in which they are bound.

    Args:
        ends: all ends, in the order of the file, with the columns `NUMBERED_END`.
        bound: the ends that were bound, with the columns `BOUND`.
    """
    at_end = bound["end"].to_numpy()
    slice_, slice_ts = np.full(len(ends), NONE), np.zeros(len(ends), np.int64)
    slice_[at_end] = bound["bound"].to_numpy()
    slice_ts[at_end] = bound["bound_ts"].to_numpy()
    at = ends["ts"].to_numpy().copy()
    at[at_end] = bound["bound_at"].to_numpy()
    binds_late = np.zeros(len(ends), bool)
    binds_late[at_end] = bound["binds_late"].to_numpy()
    order = np.lexsort(
        (
            ends["phase"].to_numpy(),
            ~binds_late,
            at,
            _places_in_order(ends["id"].combine_chunks()),
            ends["family"].to_numpy(),
        )
    )
    of_ends = ends.select(["family", "id", "phase", "place", "is_late"]).take(pa.array(order))
    of_slices = {"bound": pa.array(slice_[order]), "bound_ts": pa.array(slice_ts[order])}
    return pa.table(dict(zip(of_ends.column_names, of_ends.columns, strict=True)) | of_slices)


def _places_in_order(values: pa.Array) -> Int64s:
    """Integers that are in the same order as the values, byte by byte."""
    coded = values.dictionary_encode()
    place = np.empty(len(coded.dictionary), np.int64)
    place[pc.sort_indices(coded.dictionary).to_numpy()] = np.arange(len(place))
    found: Int64s = place[coded.indices.to_numpy()]
    return found
