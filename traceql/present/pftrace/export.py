"""Writes a database as one native Perfetto trace: a query after the other, in batches of rows."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

from traceql.database.database import Database
from traceql.errors import TraceqlError
from traceql.present.pftrace.compression import compressed
from traceql.present.pftrace.interning import Interning
from traceql.present.pftrace.packets import (
    Int64s,
    begin_packets,
    counter_packets,
    end_packets,
    integers,
    one_packet,
)
from traceql.present.pftrace.placing import track_of_each, track_of_slices, tracks_of_samples
from traceql.present.pftrace.rank_groups import rank_groups
from traceql.present.pftrace.shown_run import ShownRun
from traceql.present.pftrace.track_tree import TrackTree
from traceql.util.files import atomic_write, path_text

_BATCH_ROWS = 1 << 13


def export_perfetto(trace: Database, path: str | Path) -> Path:
    """Writes the enriched trace completely or not at all; `ts` and `dur` are the database's.

    Raises:
        TraceqlError: nothing was written; the message says why.
    """
    return export_runs([ShownRun(trace)], path)


def export_runs(runs: Sequence[ShownRun], path: str | Path) -> Path:
    """Writes one enriched trace of several runs; see `export_perfetto`."""
    target = Path(path)
    for run in runs:
        _require_not_loaded(run.trace, target)
        _require_timeline(run.trace)
    with atomic_write(target) as draft, draft.open("wb") as file:
        file.writelines(compressed(_packets(runs)))
    return target


def _require_not_loaded(trace: Database, target: Path) -> None:
    """Raises TraceqlError if the recording itself would be replaced."""
    loaded = {row["path"] for row in trace.select("SELECT path FROM trace")}
    if path_text(Path(os.path.realpath(target))) in loaded:
        raise TraceqlError(f"{target} is a trace of this run; name another file with -o")


def _require_timeline(trace: Database) -> None:
    """Raises TraceqlError if nothing in the database has a time."""
    if len(trace.select("SELECT 1 FROM slice UNION ALL SELECT 1 FROM memory LIMIT 1")):
        return
    if len(trace.select("FROM profile_file LIMIT 1")):
        raise TraceqlError(
            f"{trace.path} has counters of Nsight Compute, which have no timeline; load a trace of "
            f"the same program into it: traceql load TRACE -o {quote(str(trace.path))}"
        )
    raise TraceqlError(f"{trace.path} has no events to show: its recording is empty")


def _packets(runs: Sequence[ShownRun]) -> Iterator[bytes]:
    tree, interning = TrackTree(), Interning()
    yield one_packet(sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
    for run, tracks in zip(runs, rank_groups(tree, runs), strict=True):
        for position, kind in enumerate(run.kinds):
            rows = run.rows(kind.sql)
            if kind.is_counter:
                numbers = tracks_of_samples(rows, kind, position, tracks)
                yield from _descriptions(tree)
                yield from _samples(rows, numbers)
            else:
                track = track_of_slices(rows, kind, position, tracks)
                yield from _descriptions(tree)
                yield from _slices(rows, track, interning)


def _slices(rows: pa.Table, track: Int64s, interning: Interning) -> Iterator[bytes]:
    ts, dur = integers(rows["ts"]), integers(rows["dur"])
    # Events at the same time count in the order of the file. Ends are written first, so that no
    # slice encloses one that starts when it ends.
    yield from _ends(ts, dur, track)
    done = 0
    for batch in rows.to_batches(_BATCH_ROWS):
        packets = begin_packets(batch, track[done : done + len(batch)], interning)
        yield from _new_texts(interning)
        yield packets
        done += len(batch)


def _samples(rows: pa.Table, numbers: Mapping[tuple[int, str], int]) -> Iterator[bytes]:
    for batch in rows.to_batches(_BATCH_ROWS):
        yield counter_packets(batch, track_of_each(batch, numbers))


def _ends(ts: Int64s, dur: Int64s, track: Int64s) -> Iterator[bytes]:
    lasting = np.flatnonzero(dur > 0)
    for first in range(0, len(lasting), _BATCH_ROWS):
        part = lasting[first : first + _BATCH_ROWS]
        yield end_packets(ts[part] + dur[part], track[part])


def _descriptions(tree: TrackTree) -> Iterator[bytes]:
    for track in tree.take_new():
        yield one_packet(track_descriptor=track)


def _new_texts(interning: Interning) -> Iterator[bytes]:
    new = interning.take_new()
    if new:
        yield one_packet(interned_data=new, sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE)
