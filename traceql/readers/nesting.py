"""Parents and depths of slices, and the slices that flows join, from the trace processor."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.errors import LossyLoad
from traceql.readers import feed
from traceql.readers.flows import Flows
from traceql.readers.lost_data import require_no_losses
from traceql.readers.timeline import Timeline
from traceql.readers.trace_processor import arrow_table, open_engine
from traceql.readers.tracks import Track


@dataclass(frozen=True)
class Nesting:
    """What was found, by the trace processor or without it.

    Attributes:
        parent: index of the enclosing slice of each slice; NULL at the top.
        depth: number of enclosing slices of each slice.
        slice_out: index of the slice where each flow begins.
        slice_in: index of the slice where it ends.
        engine: which trace processor it was, for the ledger.
    """

    parent: pa.Array
    depth: pa.Array
    slice_out: pa.Array
    slice_in: pa.Array
    engine: str


Int64s = npt.NDArray[np.int64]
_UNUSED = "the trace processor, which was not used because the file has no slices"

_SLICES = "SELECT ts, dur, parent_id, depth, thread_ts FROM slice ORDER BY id"
_LAST_ID = "SELECT COALESCE(MAX(id), -1) AS id FROM slice"
_FLOWS = "SELECT slice_out, slice_in FROM flow"


def nesting(
    slices: Timeline,
    flows: Flows,
    tracks: Sequence[Track],
    *,
    trace_processor: Path | None,
) -> Nesting:
    """Feeds the events to the trace processor and joins its answer to them by index.

    Raises:
        LossyLoad: an event is missing from the answer, or has another time there.
    """
    if not len(slices):
        empty = pa.array([], pa.int64())
        return Nesting(empty, empty, empty, empty, _UNUSED)
    ids, to_fed = feed.dense_ids(tracks, slices), feed.fed_times(slices, flows)
    fed = feed.nesting_feed(slices, flows, ids, to_fed)
    with open_engine(fed, trace_processor=trace_processor) as tp:
        require_no_losses(tp)
        found = arrow_table(tp, _SLICES)
        last_id = arrow_table(tp, _LAST_ID)["id"][0].as_py()
        joined = arrow_table(tp, _FLOWS)
        engine = "the native trace processor" if trace_processor else "the bundled trace processor"
    if last_id != len(found) - 1:  # ids are row numbers
        raise LossyLoad(f"the trace processor returned {len(found)} of {last_id + 1} slices")
    return _by_index(slices, found, joined, to_fed, engine)


def _by_index(
    slices: Timeline, found: pa.Table, joined: pa.Table, to_fed: feed.FedTimes, engine: str
) -> Nesting:
    ts, dur, depth, index = (_values(found[name]) for name in ("ts", "dur", "depth", "thread_ts"))
    index //= feed.SCALE
    _require_same(slices, index, ts, dur, to_fed)
    top = found["parent_id"].is_null().to_numpy()
    parent = index[_values(found["parent_id"])]
    order = np.argsort(index)
    return Nesting(
        parent=pa.array(parent[order], mask=top[order]),
        depth=pa.array(depth[order]),
        slice_out=pa.array(index[_values(joined["slice_out"])]),
        slice_in=pa.array(index[_values(joined["slice_in"])]),
        engine=engine,
    )


def _values(column: pa.ChunkedArray) -> Int64s:
    """Integers, 0 for NULL."""
    values: Int64s = column.cast(pa.int64()).fill_null(0).to_numpy().copy()
    return values


def _require_same(
    slices: Timeline, index: Int64s, ts: Int64s, dur: Int64s, to_fed: feed.FedTimes
) -> None:
    """Raises unless every event came back exactly once, with the time that was fed."""
    total = len(slices)
    returned = np.bincount(index, minlength=total)
    if len(index) != total or (returned != 1).any():
        distinct = (returned > 0).sum()
        raise LossyLoad(f"the trace processor returned {distinct} of {total} events")
    fed_ts = to_fed(slices.ts)
    fed_dur = to_fed(slices.ts + slices.fed_dur) - fed_ts
    changed = (fed_ts[index] * feed.SCALE != ts) | (fed_dur[index] * feed.SCALE != dur)
    if changed.any():
        raise LossyLoad(f"the trace processor changed the time of {changed.sum()} events")
