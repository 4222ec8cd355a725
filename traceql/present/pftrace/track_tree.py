"""The tree of tracks: one group per rank, with the tracks of its GPU, then of its host.

Above them is a group for tracks of all ranks, if there are any. With two runs, the groups of a rank
are next to each other, those of the first run above those of the second.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, TrackDescriptor

from traceql.present.pftrace.packets import integers, one_packet
from traceql.present.pftrace.run_view import RunView, TrackKind
from traceql.readers.lanes import lanes
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

        Args:
            position: among the tracks with the same parent.
        """
        self._count += 1
        counter = None
        if unit is not None:
            is_bytes = unit == "bytes"
            counter = (
                CounterDescriptor(unit=CounterDescriptor.UNIT_SIZE_BYTES)
                if is_bytes
                else CounterDescriptor(unit_name=unit)
            )
        self._describe(
            self._count,
            parent_uuid=parent,
            name=name,
            sibling_order_rank=position,
            counter=counter,
        )
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
    """Adds the tracks of one run to the tree.

    Args:
        groups: the name and the position of the group of each rank.
    """

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
            (rank, name): self._add(rank, name, kind, position, place, unit)
            for place, (rank, name, unit) in enumerate(
                zip(*(named[column].to_pylist() for column in by), strict=True)
            )
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


def track_of_each(rows: pa.RecordBatch, numbers: Mapping[tuple[int, str], int]) -> Int64s:
    """The track number of each row, from its columns `rank` and `track`."""
    named, names = _numbered(rows)
    return np.array([numbers[name] for name in names], np.int64)[named]


def _numbered(rows: pa.Table | pa.RecordBatch) -> tuple[Int64s, list[tuple[int, str]]]:
    """A number from 0 for each distinct rank and track; and the (rank, track) of each number."""
    texts = pa.chunked_array(rows["track"]).combine_chunks().dictionary_encode()
    count = max(len(texts.dictionary), 1)
    keys = integers(rows["rank"]) * count + integers(texts.indices)
    used, inverse = np.unique(keys, return_inverse=True)
    names = [(key // count, texts.dictionary[key % count].as_py()) for key in used.tolist()]
    return inverse.astype(np.int64), names
