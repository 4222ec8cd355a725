"""Puts the ranks of a run on one time base, and says how."""

from collections.abc import Sequence
from dataclasses import dataclass

_SECOND = 1_000_000_000
# Hosts that count from their boot differ by more; traces of one run begin closer together.
_UNRELATED_S = 60


@dataclass(frozen=True)
class Extent:
    """When a file's events happened, in its own time, and what that time counts from."""

    first_ts: int  # ns
    last_ts: int  # ns
    base_ns: int | None  # baseTimeNanoseconds; None where the file has none

    @property
    def is_empty(self) -> bool:
        return self.first_ts > self.last_ts

    @property
    def span_ns(self) -> tuple[int, int]:
        """First and last time with the base added."""
        base = self.base_ns or 0
        return self.first_ts + base, self.last_ts + base


PlacedExtent = tuple[Extent, int]  # with what was added to its times, base included


@dataclass(frozen=True)
class Placement:
    """What to add to a file's times for the run's Unix or monotonic time, and why."""

    shift_ns: int
    note: str


class _Clock:
    """A clock that some ranks share, and what leads from it to the run's time."""

    def __init__(self, extent: Extent, shift_ns: int) -> None:
        self.first_ns, self.last_ns = extent.span_ns
        self.base_ns = extent.base_ns or 0
        self.shift_ns = shift_ns

    def seconds_to(self, extent: Extent) -> float:
        first_ns, last_ns = extent.span_ns
        return max(first_ns - self.last_ns, self.first_ns - last_ns) / _SECOND

    def take(self, extent: Extent) -> None:
        first_ns, last_ns = extent.span_ns
        self.first_ns, self.last_ns = min(self.first_ns, first_ns), max(self.last_ns, last_ns)


def placements(extents: Sequence[Extent], placed: Sequence[PlacedExtent] = ()) -> list[Placement]:
    """One Placement per extent; the first rank with events is the reference.

    Times are compared as the file gives them plus baseTimeNanoseconds. A rank more than a minute
    away from the reference counts from another event (its host's boot): all ranks of such a clock
    are shifted alike, so that the first of them begins with the reference.

    Args:
        extents: of the files to place.
        placed: of the files that were placed before, the reference first.
    """
    clocks: list[_Clock] = []
    for extent, shift_ns in placed:
        _clock_of(extent, clocks, shift_ns)
    known = len(clocks)
    for extent in extents:
        if not extent.is_empty:
            _clock_of(extent, clocks, 0)
    for clock in clocks[max(known, 1) :]:
        clock.shift_ns = clocks[0].first_ns + clocks[0].shift_ns - clock.first_ns
    return [_placement(extent, clocks) for extent in extents]


def _clock_of(extent: Extent, clocks: list[_Clock], shift_ns: int) -> None:
    for clock in clocks:
        if clock.seconds_to(extent) <= _UNRELATED_S:
            clock.take(extent)
            return
    clocks.append(_Clock(extent, shift_ns))


def _placement(extent: Extent, clocks: Sequence[_Clock]) -> Placement:
    base = extent.base_ns or 0
    if extent.is_empty:
        return Placement(base, "no events")
    clock = next(c for c in clocks if c.seconds_to(extent) <= _UNRELATED_S)
    if clock is not clocks[0]:
        apart = clocks[0].seconds_to(extent)
        return Placement(
            base + clock.shift_ns,
            f"clock unrelated to the first rank's ({apart:.0f} s away): shifted so that the first "
            "rank of each clock begins at the same time; compare times within a clock only",
        )
    if base != clock.base_ns:
        note = f"another base time than the first rank's (by {base - clock.base_ns} ns): Unix time"
        return Placement(base + clock.shift_ns, note)
    source = "as in the file" if extent.base_ns is None else "plus baseTimeNanoseconds"
    return Placement(base + clock.shift_ns, f"the first rank's clock; times {source}")
