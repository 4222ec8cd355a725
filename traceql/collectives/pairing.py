"""Which work of two ranks belongs together: steps, or single operations where there are none."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from traceql.collectives.ends import Ints, ending_together

# Shifts that are tried, those with the smallest distance of the clocks first.
_SHIFTS = 400
# Of the operations of units that both have, how many must be in units that look the same.
_LIKENESS = 0.5
_ABOUT_AS_MANY = 0.5


@dataclass(frozen=True)
class Series:
    """Operations of one rank in one group, by start: parallel arrays.

    key is equal where an operation could be the same on two ranks; unit where they are part of one
    thing; kind tells kernels apart; sequence is the profiler's number in the group, -1 without;
    synchronising operations end on no rank before all have begun.
    """

    rank: int
    kernel_id: Ints
    ts: Ints
    end_ts: Ints
    key: Ints
    unit: Ints
    kind: Ints
    sequence: Ints
    synchronising: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def starts(self) -> Ints:
        """First operation of each unit, and how many there are after the last."""
        borders = np.flatnonzero(np.diff(self.unit)) + 1
        return np.concatenate(([0], borders, [len(self)]))

    @property
    def unit_of_operation(self) -> Ints:
        """Number of each operation's unit, from 0."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def is_numbered(self) -> bool:
        return bool((self.sequence >= 0).all())

    @cached_property
    def signatures(self) -> Ints:
        """A number for each unit, equal where its operations look the same in the same order."""
        weights = self.key * np.int64(1_000_003) + _positions(self.starts) * np.int64(7_919)
        return np.add.reduceat(_mixed(weights), self.starts[:-1])

    @cached_property
    def unit_spans(self) -> tuple[Ints, Ints]:
        first = self.ts[self.starts[:-1]]
        return first, np.maximum.reduceat(self.end_ts, self.starts[:-1])


def _positions(starts: Ints) -> Ints:
    return np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))


def _mixed(values: Ints) -> Ints:
    """Spreads bits, so that sums of different sets differ."""
    with np.errstate(over="ignore"):
        spread = values * np.int64(-7046029254386353131)
        return spread ^ (spread >> np.int64(29))


def alike(reference: Series, other: Series) -> tuple[Ints, Ints] | None:
    """Operations (of reference, of other) that are the same by their order, for the clocks.

    Tries every shift of one rank's units against the other's. Of those under which about as many
    operations end together as under the best, the one with the least difference of the clocks: a
    steady rhythm fits itself at any shift. None where no shift explains what both have.
    """
    tried = [
        pairs
        for shift in _shifts(reference, other)
        if (pairs := _shifted(reference, other, shift)) is not None
    ]
    ends = [(reference.end_ts[mine], other.end_ts[theirs]) for mine, theirs in tried]
    scores = [ending_together(mine, theirs) for mine, theirs in ends]
    apart = [abs(float(np.median(theirs - mine))) for mine, theirs in ends]
    good = [n for n, score in enumerate(scores) if score >= _ABOUT_AS_MANY * max(scores)]
    return tried[min(good, key=lambda n: apart[n])] if good else None


def _shifts(reference: Series, other: Series) -> Ints:
    units, others = len(reference.starts) - 1, len(other.starts) - 1
    shifts = np.arange(1 - others, units)
    if len(shifts) <= _SHIFTS:
        return shifts
    # By how far apart in time a shift puts the first unit that both have.
    at_reference, at_other = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    apart = np.abs(reference.unit_spans[1][at_reference] - other.unit_spans[1][at_other])
    return shifts[np.argsort(apart, kind="stable")[:_SHIFTS]]


def _shifted(reference: Series, other: Series, shift: int) -> tuple[Ints, Ints] | None:
    units, others = len(reference.starts) - 1, len(other.starts) - 1
    mine = np.arange(max(0, shift), min(units, others + shift))
    if 2 * len(mine) < min(units, others):
        return None
    theirs = mine - shift
    same = reference.signatures[mine] == other.signatures[theirs]
    operations = np.diff(reference.starts)[mine]
    if operations[same].sum() < _LIKENESS * operations.sum():
        return None
    return _operations(reference, mine[same]), _operations(other, theirs[same])


def _operations(series: Series, units: Ints) -> Ints:
    """Numbers of all operations of some units."""
    counts = np.diff(series.starts)[units]
    firsts = np.repeat(series.starts[:-1][units], counts)
    within: Ints = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return within + firsts


def shared_units(reference: Series, other: Series) -> Ints:
    """For each operation of other the number of the unit of reference that it is in; -1 without.

    Both on one clock. Steps are over on all ranks within microseconds: the one that ends nearest is
    the same, where that is mutual. So is an operation that one of them has outside any step.
    """
    step = _mutually_nearest(reference.unit_spans[1], other.unit_spans[1])[other.unit_of_operation]
    are_steps = (other.unit >= 0) & (step >= 0) & (reference.unit[reference.starts[:-1][step]] >= 0)
    alone = _mutually_nearest(reference.end_ts, other.end_ts)
    is_same = (alone >= 0) & (reference.key[alone] == other.key)
    return np.where(are_steps, step, np.where(is_same, reference.unit_of_operation[alone], -1))


def _mutually_nearest(mine: Ints, theirs: Ints) -> Ints:
    """For each of their times the number of mine that is nearest; -1 where not mutual."""
    there, back = _nearest(mine, theirs), _nearest(theirs, mine)
    return np.where(back[there] == np.arange(len(theirs)), there, -1)


def _nearest(ends: Ints, wanted: Ints) -> Ints:
    """Number of the nearest of `ends` to each of `wanted`."""
    order = np.argsort(ends, kind="stable")
    place = np.searchsorted(ends, wanted, sorter=order)
    before, after = np.maximum(place - 1, 0), np.minimum(place, len(ends) - 1)
    is_before = np.abs(ends[order[before]] - wanted) <= np.abs(ends[order[after]] - wanted)
    return order[np.where(is_before, before, after)]
