"""The tree of tracks. Who adds a track says under which other one, and where among its siblings."""

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, TrackDescriptor

TOP = 0  # Perfetto's number for the root of all tracks
_EXPLICIT = TrackDescriptor.EXPLICIT


class TrackTree:
    """Numbers tracks as they are added. Their descriptions must be written before their events."""

    def __init__(self) -> None:
        self._count = 0
        self._new = [TrackDescriptor(uuid=TOP, child_ordering=_EXPLICIT)]

    def add(self, name: str, parent: int, place: int, unit: str | None = None) -> int:
        """Adds a track and returns its number; with a unit, it is a track of counter samples.

        A viewer shows tracks with the same name and parent as one track with several lanes.
        """
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

    def take_new(self) -> list[TrackDescriptor]:
        """The descriptions of the tracks that were added since the last call."""
        new, self._new = self._new, []
        return new


_BYTES = CounterDescriptor(unit=CounterDescriptor.UNIT_SIZE_BYTES)


def _counter(unit: str) -> CounterDescriptor:
    return _BYTES if unit == "bytes" else CounterDescriptor(unit_name=unit)
