"""Puts the ranks of a run on one time base, and notes how."""

from collections.abc import Sequence
from dataclasses import dataclass

_SECOND = 1_000_000_000
# Clocks that count from the boot of their hosts differ by more; traces of one run begin closer
# together.
_UNRELATED_S = 60


@dataclass(frozen=True)
class Extent:
    """The first and the last time in a file, and the base that its times count from."""

    first_ts: int  # ns
    last_ts: int  # ns
    base_ns: int | None  # baseTimeNanoseconds; None if the file has none

    @property
    def is_empty(self) -> bool:
        return self.first_ts > self.last_ts

    @property
    def span_ns(self) -> tuple[int, int]:
        """First and last time, with the base added, ns."""
        base = self.base_ns or 0
        return self.first_ts + base, self.last_ts + base


PlacedExtent = tuple[Extent, int]  # an extent, and the shift of its clock, ns


@dataclass(frozen=True)
class Placement:
    """What to add to the times of a file to get the run's time, ns, and a note that says why."""

    shift_ns: int
    note: str


class _Clock:
    """A clock that some ranks share, and what to add to its times to get the run's time, ns."""

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
    """The placement of each extent; the first rank with events is the reference rank.

    The times compared are those of the file plus baseTimeNanoseconds. If a rank is more than a
    minute away from the reference rank, its clock counts from something else, such as the boot of
    its host. All ranks with such a clock get the same shift, so that the first of them begins
    together with the reference rank.

    Args:
        extents: the extents of the files to place.
        placed: the extents of files that were placed before, the reference rank first.
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
            f"clock unrelated to the reference rank's ({apart:.0f} s away): shifted so that the "
            "first rank of each clock begins at the same time; do not compare times across clocks",
        )
    if base != clock.base_ns:
        note = f"base time {base - clock.base_ns} ns after the reference rank's: Unix time is used"
        return Placement(base + clock.shift_ns, note)
    source = "as in the file" if extent.base_ns is None else "plus baseTimeNanoseconds"
    return Placement(base + clock.shift_ns, f"same clock as the reference rank; times {source}")
