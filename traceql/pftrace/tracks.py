"""The tree of tracks: a group for each rank, in it what its GPU did, then its host."""

from collections.abc import Mapping
from dataclasses import dataclass

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, TrackDescriptor

_TOP = 0  # Perfetto's number for what is above all tracks
_EXPLICIT = TrackDescriptor.EXPLICIT


@dataclass(frozen=True)
class Spot:
    """Where a track stands: on a rank, perhaps in a group there, and its place among siblings."""

    rank: int
    group: str | None
    place: tuple[int, ...]


class TrackTree:
    """Numbers tracks as they are added; their descriptions have to be written before events."""

    def __init__(self, ranks: Mapping[int, str]) -> None:
        """`ranks` has the name of each rank's group."""
        self._count = 0
        self._new = [TrackDescriptor(uuid=_TOP, child_ordering=_EXPLICIT)]
        self._parents: dict[tuple[int, str | None], int] = {}
        for place, (rank, name) in enumerate(sorted(ranks.items())):
            self._parents[rank, None] = self._add(name, _TOP, place)

    def add(self, name: str, spot: Spot, unit: str | None = None) -> int:
        """The number of a new track, of samples where it has a unit.

        TrackTree of one name and parent are lanes that a viewer shows as one.
        """
        return self._add(name, self._parent(spot), _flat(spot.place), unit)

    def take_new(self) -> list[TrackDescriptor]:
        """What was added since the last call."""
        new, self._new = self._new, []
        return new

    def _parent(self, spot: Spot) -> int:
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
    """One number that sorts as the place does."""
    first, second = (*place, 0)[:2]
    return first << 16 | min(second, (1 << 16) - 1)
