"""Puts the ranks of a run on one time base, and says how."""

from collections.abc import Sequence
from dataclasses import dataclass

_SECOND = 1_000_000_000
# Hosts that count from their boot differ by more; traces of one run begin closer together.
_UNRELATED_NS = 60 * _SECOND


@dataclass(frozen=True)
class Extent:
    """When a file's events happened, in its own time, and what that time counts from."""

    first_ts: int  # ns
    last_ts: int  # ns
    base_ns: int | None  # baseTimeNanoseconds; None where the file has none


@dataclass(frozen=True)
class Placement:
    """What to add to a file's times for the run's Unix or monotonic time, and why."""

    shift_ns: int
    note: str
    related: bool  # False where the clocks have nothing in common and starts were aligned


def placements(extents: Sequence[Extent]) -> list[Placement]:
    """One Placement per extent; the first with events is the reference.

    Times are compared as the file gives them plus baseTimeNanoseconds. A rank that is then more
    than a minute away from the reference counts from another event (its host's boot), and is
    placed so that both begin together.
    """
    reference = next((e for e in extents if e.first_ts <= e.last_ts), None)
    return [_placement(extent, reference) for extent in extents]


def _placement(extent: Extent, reference: Extent | None) -> Placement:
    base = extent.base_ns or 0
    if reference is None or extent.first_ts > extent.last_ts or extent is reference:
        return Placement(base, _own_clock(extent), True)
    reference_base = reference.base_ns or 0
    start, end = extent.first_ts + base, extent.last_ts + base
    reference_start = reference.first_ts + reference_base
    apart = max(start - (reference.last_ts + reference_base), reference_start - end)
    if apart > _UNRELATED_NS:
        note = (
            f"clock unrelated to the first rank's ({apart / _SECOND:.0f} s away): placed so that "
            "both traces begin together; do not compare times across these ranks"
        )
        return Placement(reference_start - extent.first_ts, note, False)
    if base != reference_base:
        note = f"another base time than the first rank's (by {base - reference_base} ns): Unix time"
        return Placement(base, note, True)
    return Placement(base, "same base time as the first rank", True)


def _own_clock(extent: Extent) -> str:
    if extent.base_ns is None:
        return "times as in the file: it has no baseTimeNanoseconds"
    return "times as in the file plus baseTimeNanoseconds"
