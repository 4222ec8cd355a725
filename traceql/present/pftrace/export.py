"""Writes databases as one native Perfetto trace: its tracks, then rows in batches."""

import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from shlex import quote

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    Trace,
    TracePacket,
    TrackDescriptor,
)

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
from traceql.present.pftrace.run_view import RunView, TrackKind
from traceql.readers.lanes import lanes
from traceql.util.files import atomic_write, path_text
from traceql.util.protobuf_wire import Int64s

_ROOT = 0  # Perfetto's number for the root of all tracks
_ALL_RANKS = -1  # the rank of tracks that are of all ranks
_ALL_RANKS_NAME = "all ranks"  # sorts before "rank 0": the UI sorts the top by name


class TrackTree:
    """Numbers tracks as they are added. Their descriptions must be written before their events."""

    def __init__(self) -> None:
        self._count = 0
        self._new: list[TrackDescriptor] = []
        self._describe(_ROOT)

    def add(self, name: str, parent: int, position: int, unit: str | None = None) -> int:
        """Adds a track and returns its number; with a unit, it is a track of counter samples.

        A viewer shows tracks with the same name and parent as one track with several lanes.
        """
        self._count += 1
        counter = None if unit is None else CounterDescriptor(unit_name=unit)
        if unit == "bytes":
            counter = CounterDescriptor(unit=CounterDescriptor.UNIT_SIZE_BYTES)
        about = {"parent_uuid": parent, "name": name, "sibling_order_rank": position}
        self._describe(self._count, **about, counter=counter)
        return self._count

    def _describe(self, number: int, **content: object) -> None:
        explicit = TrackDescriptor.EXPLICIT
        self._new.append(TrackDescriptor(uuid=number, child_ordering=explicit, **content))

    def take_new(self) -> Iterator[bytes]:
        """The packets of the tracks that were added since the last call."""
        new, self._new = self._new, []
        for track in new:
            yield one_packet(track_descriptor=track)


class RankGroups:
    """Adds the tracks of one run to the tree."""

    def __init__(self, tree: TrackTree, groups: Mapping[int, tuple[str, int]]) -> None:
        self._tree = tree
        self._groups = groups
        self._parents: dict[tuple[int, str | None], int] = {}
        for rank in sorted(groups):
            if rank != _ALL_RANKS:
                self._parent(rank, None, 0)

    def add_slices(self, rows: pa.Table, kind: TrackKind, position: int) -> Int64s:
        """The number of each row's track: one per rank and name, and more where slices overlap.

        Columns: `rank`, `track`, `ts`, `dur`. The track with most rows comes first.
        """
        named, names = _numbered(rows)
        lane = lanes(named, integers(rows["ts"]), integers(rows["dur"]))
        lane_count = int(lane.max(initial=0)) + 1
        used, inverse = np.unique(named * lane_count + lane, return_inverse=True)
        fullest_first = np.argsort(-np.bincount(named), kind="stable")
        place = {track: place for place, track in enumerate(fullest_first.tolist())}
        numbers = [
            self._add(rank, name, kind, position, place[track])
            for track in (used // lane_count).tolist()
            for rank, name in [names[track]]
        ]
        return np.array(numbers, np.int64)[inverse]

    def add_counters(
        self, rows: pa.Table, kind: TrackKind, position: int
    ) -> dict[tuple[int, str], int]:
        """Adds a track for each `rank`, `track` and `unit` of the rows; returns their numbers."""
        by = ["rank", "track", "unit"]
        named = rows.group_by(by).aggregate([]).sort_by([(name, "ascending") for name in by])
        return {
            (row["rank"], row["track"]): self._add(
                row["rank"], row["track"], kind, position, place, row["unit"]
            )
            for place, row in enumerate(named.to_pylist())
        }

    def _add(
        self,
        rank: int,
        name: str,
        kind: TrackKind,
        position: int,
        place: int,
        unit: str | None = None,
    ) -> int:
        parent = self._parent(rank, kind.group, position)
        return self._tree.add(name, parent, position << 16 | min(place, (1 << 16) - 1), unit)

    def _parent(self, rank: int, group: str | None, position: int) -> int:
        key = rank, group
        if key not in self._parents:
            self._parents[key] = (
                self._tree.add(self._groups[rank][0], _ROOT, self._groups[rank][1])
                if group is None
                else self._tree.add(group, self._parent(rank, None, 0), position << 16)
            )
        return self._parents[key]


def rank_groups(tree: TrackTree, runs: Sequence[RunView]) -> Iterable[RankGroups]:
    """The groups of each run."""
    names = []
    for run in runs:
        of_run = "" if run.label is None else f" · {run.label}"
        names.append({_ALL_RANKS: _ALL_RANKS_NAME + of_run, **run.rank_names()})
    in_order = sorted((rank, number) for number, ranks in enumerate(names) for rank in ranks)
    places = {key: place for place, key in enumerate(in_order)}
    return [
        RankGroups(tree, {rank: (name, places[rank, number]) for rank, name in ranks.items()})
        for number, ranks in enumerate(names)
    ]


def _numbered(rows: pa.Table | pa.RecordBatch) -> tuple[Int64s, list[tuple[int, str]]]:
    """A number from 0 for each distinct rank and track; and the (rank, track) of each number."""
    texts = pa.chunked_array(rows["track"]).combine_chunks().dictionary_encode()
    count = max(len(texts.dictionary), 1)
    keys = integers(rows["rank"]) * count + integers(texts.indices)
    used, inverse = np.unique(keys, return_inverse=True)
    names = [(key // count, texts.dictionary[key % count].as_py()) for key in used.tolist()]
    return inverse.astype(np.int64), names


_BATCH_ROWS = 1 << 13
_BLOCK_BYTES = 1 << 21  # of packets that are compressed together, at least
_LEVEL = 1  # the fastest; the next ones hardly compress columns of similar packets further
_MAX_WAITING = 4  # compressed blocks that wait to be written, so that memory stays bounded


def export_perfetto(database: Database, path: str | Path) -> Path:
    """Writes the enriched trace completely or not at all; `ts` and `dur` are the database's.

    Raises:
        TraceqlError: nothing was written; the message has the reason.
    """
    return export_runs([RunView(database)], path)


def export_runs(runs: Sequence[RunView], path: str | Path) -> Path:
    """Writes one enriched trace of several runs; see `export_perfetto`."""
    target = Path(path)
    for run in runs:
        _require_exportable(run.database, target)
    with atomic_write(target) as draft, draft.open("wb") as file:
        file.writelines(_compressed(_packets(runs)))
    return target


def _require_exportable(database: Database, target: Path) -> None:
    """Raises TraceqlError if the recording would be replaced, or if nothing has a time."""
    recordings = {row["path"] for row in database.select("SELECT path FROM trace")}
    if path_text(Path(os.path.realpath(target))) in recordings:
        raise TraceqlError(f"{target} is a trace of this run; name another file with -o")
    if len(database.select("SELECT 1 FROM slice UNION ALL SELECT 1 FROM memory LIMIT 1")):
        return
    if len(database.select("FROM profile_file LIMIT 1")):
        raise TraceqlError(
            f"{database.path} has counters of Nsight Compute, which have no timeline; load a trace "
            f"of the same program into it: traceql load TRACE -o {quote(str(database.path))}"
        )
    raise TraceqlError(f"{database.path} has no events to show: its recording is empty")


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
                    named, names = _numbered(batch)
                    track_of_name = np.array([numbers[name] for name in names], np.int64)
                    yield counter_packets(batch, track_of_name[named])
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
        block = bytearray()
        for packet in packets:
            block += packet
            if len(block) >= _BLOCK_BYTES:
                waiting.append(thread.submit(_compress, bytes(block)))
                block.clear()
            if len(waiting) > _MAX_WAITING:
                yield waiting.popleft().result()
        waiting.append(thread.submit(_compress, bytes(block)))
        for last in waiting:
            yield last.result()


def _compress(block: bytes) -> bytes:
    packet = TracePacket(compressed_packets=zlib.compress(block, _LEVEL))
    return bytes(Trace(packet=[packet]).SerializeToString())
