"""Writes a database as one native Perfetto trace: a query after the other, in batches of rows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

from traceql.files import whole_file
from traceql.pftrace.compression import compressed
from traceql.pftrace.interning import Interning
from traceql.pftrace.kinds import KINDS, TRACKS, TrackKind
from traceql.pftrace.packets import (
    Int64s,
    begin_packets,
    counter_packets,
    end_packets,
    integers,
    one_packet,
)
from traceql.pftrace.placing import track_of_each, track_of_slices, tracks_of_samples
from traceql.pftrace.track_tree import TrackTree
from traceql.trace import Trace

_BATCH_ROWS = 1 << 13
_RANKS = (TRACKS / "ranks.sql").read_text()


def export_perfetto(trace: Trace, path: str | Path) -> Path:
    """Writes the enriched trace completely or not at all; `ts` and `dur` are the database's.

    Raises:
        TraceqlError: nothing was written; the message says why.
    """
    target = Path(path)
    with whole_file(target) as draft, draft.open("wb") as file:
        file.writelines(compressed(_packets(trace)))
    return target


def _packets(trace: Trace) -> Iterator[bytes]:
    tracks = TrackTree({row["rank"]: row["name"] for row in trace.sql(_RANKS)})
    interning = Interning()
    yield one_packet(sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
    for position, kind in enumerate(KINDS):
        rows = trace.sql(kind.sql).arrow()
        if kind.is_counter:
            yield from _samples(rows, kind, position, tracks)
        else:
            yield from _slices(rows, kind, position, tracks, interning)


def _slices(
    rows: pa.Table, kind: TrackKind, position: int, tracks: TrackTree, interning: Interning
) -> Iterator[bytes]:
    ts, dur = integers(rows["ts"]), integers(rows["dur"])
    track = track_of_slices(rows, kind, position, tracks)
    yield from _descriptions(tracks)
    # Events at the same time count in the order of the file. Ends are written first, so that no
    # slice encloses one that starts when it ends.
    yield from _ends(ts, dur, track)
    done = 0
    for batch in rows.to_batches(_BATCH_ROWS):
        packets = begin_packets(batch, track[done : done + len(batch)], interning)
        yield from _new_texts(interning)
        yield packets
        done += len(batch)


def _samples(rows: pa.Table, kind: TrackKind, position: int, tracks: TrackTree) -> Iterator[bytes]:
    numbers = tracks_of_samples(rows, kind, position, tracks)
    yield from _descriptions(tracks)
    for batch in rows.to_batches(_BATCH_ROWS):
        yield counter_packets(batch, track_of_each(batch, numbers))


def _ends(ts: Int64s, dur: Int64s, track: Int64s) -> Iterator[bytes]:
    lasting = np.flatnonzero(dur > 0)
    for first in range(0, len(lasting), _BATCH_ROWS):
        part = lasting[first : first + _BATCH_ROWS]
        yield end_packets(ts[part] + dur[part], track[part])


def _descriptions(tracks: TrackTree) -> Iterator[bytes]:
    for track in tracks.take_new():
        yield one_packet(track_descriptor=track)


def _new_texts(interning: Interning) -> Iterator[bytes]:
    new = interning.take_new()
    if new:
        yield one_packet(interned_data=new, sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE)
