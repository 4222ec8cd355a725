"""What to add to the times of each file, so that all are on one time base."""

from collections.abc import Sequence
from dataclasses import dataclass

# Clocks that count from the boot of their hosts differ by more than traces of one run.
_UNRELATED_S = 60


@dataclass(frozen=True)
class Extent:
    """The first and the last time in a file, and its time base."""

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
    """What to add to the times of a file to get the run's time, ns, with the reason."""

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
        return max(first_ns - self.last_ns, self.first_ns - last_ns) / 1e9


def placements(extents: Sequence[Extent], placed: Sequence[PlacedExtent] = ()) -> list[Placement]:
    """The placement of each extent; the first rank with events is the reference rank.

    The times of a file plus baseTimeNanoseconds are compared. If a rank is more than a minute from
    the reference rank, its clock has another origin, such as the boot of its host. All ranks with
    such a clock get the same shift, so that the first of them begins together with the reference
    rank.

    Args:
        placed: the extents of files that were placed before, the reference rank first.
    """
    clocks: list[_Clock] = []
    known = 0
    for extent, shift_ns in [*placed, *((one, None) for one in extents if not one.is_empty)]:
        clock = next((one for one in clocks if one.seconds_to(extent) <= _UNRELATED_S), None)
        if clock is None:
            clock = _Clock(extent, shift_ns or 0)
            clocks.append(clock)
            known += shift_ns is not None
        first_ns, last_ns = extent.span_ns
        clock.first_ns, clock.last_ns = min(clock.first_ns, first_ns), max(clock.last_ns, last_ns)
    for clock in clocks[max(known, 1) :]:
        clock.shift_ns = clocks[0].first_ns + clocks[0].shift_ns - clock.first_ns
    return [_placement(extent, clocks) for extent in extents]


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
