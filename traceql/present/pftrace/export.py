"""Writes databases as one native Perfetto trace: a query after the other, in batches of rows."""

import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from shlex import quote

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket

from traceql.database.database import Database
from traceql.errors import TraceqlError
from traceql.present.pftrace.packets import (
    Interning,
    begin_packets,
    counter_packets,
    end_packets,
    integers,
    one_packet,
)
from traceql.present.pftrace.run_view import RunView
from traceql.present.pftrace.track_tree import TrackTree, rank_groups, track_of_each
from traceql.util.files import atomic_write, path_text
from traceql.util.protobuf_wire import Int64s

_BATCH_ROWS = 1 << 13
_BLOCK_BYTES = 1 << 21  # of packets that are compressed together, at least
_LEVEL = 1  # the fastest; the next ones hardly compress columns of similar packets further
_MAX_WAITING = 4  # compressed blocks that wait to be written, so that memory stays bounded


def export_perfetto(trace: Database, path: str | Path) -> Path:
    """Writes the enriched trace completely or not at all; `ts` and `dur` are the database's.

    Raises:
        TraceqlError: nothing was written; the message has the reason.
    """
    return export_runs([RunView(trace)], path)


def export_runs(runs: Sequence[RunView], path: str | Path) -> Path:
    """Writes one enriched trace of several runs; see `export_perfetto`."""
    target = Path(path)
    for run in runs:
        _require_exportable(run.trace, target)
    with atomic_write(target) as draft, draft.open("wb") as file:
        file.writelines(_compressed(_packets(runs)))
    return target


def _require_exportable(trace: Database, target: Path) -> None:
    """Raises TraceqlError if the recording would be replaced, or if nothing has a time."""
    recordings = {row["path"] for row in trace.select("SELECT path FROM trace")}
    if path_text(Path(os.path.realpath(target))) in recordings:
        raise TraceqlError(f"{target} is a trace of this run; name another file with -o")
    if len(trace.select("SELECT 1 FROM slice UNION ALL SELECT 1 FROM memory LIMIT 1")):
        return
    if len(trace.select("FROM profile_file LIMIT 1")):
        raise TraceqlError(
            f"{trace.path} has counters of Nsight Compute, which have no timeline; load a trace of "
            f"the same program into it: traceql load TRACE -o {quote(str(trace.path))}"
        )
    raise TraceqlError(f"{trace.path} has no events to show: its recording is empty")


def _packets(runs: Sequence[RunView]) -> Iterator[bytes]:
    tree, interning = TrackTree(), Interning()
    yield one_packet(sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
    for run, tracks in zip(runs, rank_groups(tree, runs), strict=True):
        for position, kind in enumerate(run.kinds):
            rows = run.rows(kind.sql)
            if kind.is_counter:
                numbers = tracks.add_counters(rows, kind, position)
                yield from tree.take_new()
                for batch in rows.to_batches(_BATCH_ROWS):
                    yield counter_packets(batch, track_of_each(batch, numbers))
            else:
                track = tracks.add_slices(rows, kind, position)
                yield from tree.take_new()
                yield from _slices(rows, track, interning)


def _slices(rows: pa.Table, track: Int64s, interning: Interning) -> Iterator[bytes]:
    # Events at the same time count in the order of the file. Ends are written first, so that no
    # slice encloses one that starts when it ends.
    ts, dur = integers(rows["ts"]), integers(rows["dur"])
    lasting = np.flatnonzero(dur > 0)
    for first in range(0, len(lasting), _BATCH_ROWS):
        part = lasting[first : first + _BATCH_ROWS]
        yield end_packets(ts[part] + dur[part], track[part])
    done = 0
    for batch in rows.to_batches(_BATCH_ROWS):
        packets = begin_packets(batch, track[done : done + len(batch)], interning)
        yield interning.take_new()
        yield packets
        done += len(batch)


def _compressed(packets: Iterable[bytes]) -> Iterator[bytes]:
    """The same packets in the same order; a thread compresses while the next ones are made.

    A packet may hold others in deflated form, as in the traces of Perfetto's own tools.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        waiting: deque[Future[bytes]] = deque()
        for block in _blocks(packets):
            waiting.append(thread.submit(_compress, block))
            if len(waiting) > _MAX_WAITING:
                yield waiting.popleft().result()
        for last in waiting:
            yield last.result()


def _blocks(packets: Iterable[bytes]) -> Iterator[bytes]:
    block = bytearray()
    for packet in packets:
        block += packet
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def _compress(block: bytes) -> bytes:
    packet = TracePacket(compressed_packets=zlib.compress(block, _LEVEL))
    return bytes(Trace(packet=[packet]).SerializeToString())
