"""The tree of tracks: one group per rank, with the tracks of its GPU, then of its host.

Above them is a group for what is about all ranks, if there is something.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, TrackDescriptor

_TOP = 0  # Perfetto's number for the root of all tracks
_ALL_RANKS = -1  # stands for a rank in what is about all of them
_OF_ALL_RANKS = "all ranks"  # sorts before "rank 0": the UI goes by names at the top
_EXPLICIT = TrackDescriptor.EXPLICIT


@dataclass(frozen=True)
class Spot:
    """The position of a track: its rank (-1: above all), its group there, its place in it."""

    rank: int
    group: str | None
    place: tuple[int, ...]


class TrackTree:
    """Numbers tracks as they are added. Their descriptions must be written before their events."""

    def __init__(self, ranks: Mapping[int, str]) -> None:
        """`ranks` maps each rank to the name of its group."""
        self._count = 0
        self._new = [TrackDescriptor(uuid=_TOP, child_ordering=_EXPLICIT)]
        self._parents: dict[tuple[int, str | None], int] = {}
        for place, (rank, name) in enumerate(sorted(ranks.items()), start=1):
            self._parents[rank, None] = self._add(name, _TOP, place)

    def add(self, name: str, spot: Spot, unit: str | None = None) -> int:
        """Adds a track and returns its number; with a unit, it is a track of counter samples.

        A viewer shows tracks with the same name and parent as one track with several lanes.
        """
        return self._add(name, self._parent(spot), _flat(spot.place), unit)

    def take_new(self) -> list[TrackDescriptor]:
        """The descriptions of the tracks that were added since the last call."""
        new, self._new = self._new, []
        return new

    def _parent(self, spot: Spot) -> int:
        if spot.rank == _ALL_RANKS and (_ALL_RANKS, None) not in self._parents:
            self._parents[_ALL_RANKS, None] = self._add(_OF_ALL_RANKS, _TOP, 0)
        key = spot.rank, spot.group
        if key not in self._parents:
            rank = self._parents[spot.rank, None]
            self._parents[key] = self._add(str(spot.group), rank, _flat(spot.place[:1]))
        return self._parents[key]

    def _add(self, name: str, parent: int, place: int, unit: str | None = None) -> int:
        self._count += 1
        track = TrackDescriptor(
            uuid=self._count,
            parent_uuid=parent,
            name=name,
            sibling_order_rank=place,
            child_ordering=_EXPLICIT,
        )
        if unit is not None:
            track.counter.CopyFrom(_counter(unit))
        self._new.append(track)
        return self._count


_BYTES = CounterDescriptor(unit=CounterDescriptor.UNIT_SIZE_BYTES)


def _counter(unit: str) -> CounterDescriptor:
    return _BYTES if unit == "bytes" else CounterDescriptor(unit_name=unit)


def _flat(place: tuple[int, ...]) -> int:
    """The place as one number that has the same order."""
    first, second = (*place, 0)[:2]
    return first << 16 | min(second, (1 << 16) - 1)
