"""Matches the operations of one rank with those of another, in two ways.

`alike` pairs them by their order alone. It is used to compare the clocks of the two ranks.
`shared_units` pairs them by time, once both ranks are on one clock.

Both work on units: a unit is a step, or a single operation outside steps.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from traceql.util.arrow_duckdb import Columns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LEAST_OPERATIONS = 5  # a clock is not measured with fewer operations
DRIFT_SPAN_NS = 20_000_000  # no drift is measured over a shorter time
_TOGETHER_NS = 10_000  # two ranks end a collective within this time

_MOST_SHIFTS = 400  # shifts that are tried: those that mean the smallest clock difference
_MOST_DIFFERENCES = 40  # clock differences that are tried: those of the shifts that fit best
# A shift is possible if at least this share of the operations is in units that look the same.
_LEAST_LIKENESS = 0.5
# A shift is good if at least this share of the operations ends together, compared with the best.
_LEAST_SCORE = 0.5
# ... and not much worse than one that pairs as many, if at least the first share of those ends
# together (else chance decides): of its own ones, at least the second share of that.
_TELLING_SHARE = 0.5
_LEAST_SHARE = 0.95
# Shifts mean about the same clock difference if it is at most this many times the smallest one.
_ABOUT_THE_SAME = 1.1


@dataclass(frozen=True)
class Series:
    """The operations of one rank in one communicator, in the order of their starts.

    Attributes:
        kernel_id: the kernel of each operation.
        ts: the start of each operation, ns.
        end_ts: the end of each operation, ns.
        key: equal for operations that may be the same one on two ranks.
        unit: equal for operations of one unit; negative for an operation that is its own unit.
        kind: a number for the name of the kernel.
        sequence: the profiler's number of the operation in its process group; -1 if it has none.
        synchronising: whether no rank can end the operation before all ranks have begun it.
    """

    rank: int
    kernel_id: Ints
    ts: Ints
    end_ts: Ints
    key: Ints
    unit: Ints
    kind: Ints
    sequence: Ints
    synchronising: Bools

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def starts(self) -> Ints:
        """The first operation of each unit, followed by the number of operations."""
        borders = np.flatnonzero(np.diff(self.unit)) + 1
        return np.concatenate(([0], borders, [len(self)]))

    @property
    def unit_of_operation(self) -> Ints:
        """The unit of each operation; units are numbered in their order, from 0."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def is_numbered(self) -> bool:
        """Whether the profiler numbered all operations."""
        return bool((self.sequence >= 0).all())

    @cached_property
    def signatures(self) -> Ints:
        """A number for each unit; equal for units with the same keys in the same order."""
        weights = self.key * np.int64(1_000_003) + _positions(self.starts) * np.int64(7_919)
        return np.add.reduceat(_mixed(weights), self.starts[:-1])

    @cached_property
    def unit_spans(self) -> tuple[Ints, Ints]:
        """The start and the end of each unit, ns."""
        first = self.ts[self.starts[:-1]]
        return first, np.maximum.reduceat(self.end_ts, self.starts[:-1])


def _positions(starts: Ints) -> Ints:
    """The position of each operation in its unit, from 0."""
    return np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))


def _mixed(values: Ints) -> Ints:
    """A hash of each value, so that the sums of different sets of values differ."""
    with np.errstate(over="ignore"):
        spread = values * np.int64(-7046029254386353131)
        return spread ^ (spread >> np.int64(29))


def alike(
    reference: Series, other: Series, *, sender: int | None = None, is_whole: bool = True
) -> tuple[Ints, Ints] | None:
    """Pairs of operations of two ranks that are the same by their order, whatever the clocks.

    Returns two parallel arrays: places in `reference`, and places in `other`. None if no shift
    pairs enough operations.

    Args:
        sender: the rank that sends to the other one; None if data goes both ways.
        is_whole: whether no operation of the two ranks is known to be lost or without a time.

    The units of one rank are shifted against those of the other, because one recording may begin
    earlier. For each shift, the operations that end together are counted, apart from a constant
    clock difference. A shift is wrong if another one pairs as many, and clearly more of them end
    together. A steady rhythm fits at many shifts, so that of all good ones, the one that means the
    smallest clock difference counts. Where one rank sends, several operations may follow each other
    so quickly that some shifts mean about the same difference; of these, the one counts with which
    the fewest are received before they are sent. A shift with which all operations of both ranks
    end together counts at once.

    If an operation is lost, the order shows the same ones only up to it: see `_alike_by_time`.
    """
    if sender is None and not is_whole:
        return _alike_by_time(reference, other)
    tried = [
        pairs
        for shift in _shifts(reference, other)
        if (pairs := _paired(reference, other, shift)) is not None
    ]
    ends = [(reference.end_ts[mine], other.end_ts[theirs]) for mine, theirs in tried]
    scores = np.array([ending_together(mine, theirs) for mine, theirs in ends])
    apart = [float(np.median(np.abs(theirs - mine))) for mine, theirs in ends]
    paired = np.array([len(mine) for mine, _ in ends])
    good = _good_shifts(scores, paired)
    if not good:
        return None
    most = max(len(reference), len(other))
    if sender is None and (whole := [n for n in good if scores[n] == most]):
        return tried[whole[0]]
    near = [n for n in good if apart[n] <= _ABOUT_THE_SAME * min(apart[m] for m in good)]
    early = {n: _received_early(reference, other, tried[n], sender) for n in near}
    return tried[min(near, key=lambda n: (early[n], apart[n]))]


def _good_shifts(scores: Ints, paired: Ints) -> list[int]:
    """The places of good shifts, by the numbers of pairs that end together, and of all pairs."""
    shares = scores / np.maximum(paired, 1)
    is_telling = (scores >= LEAST_OPERATIONS) & (shares >= _TELLING_SHARE)
    return [
        n
        for n, score in enumerate(scores)
        if score >= _LEAST_SCORE * scores.max()
        and shares[n] >= _LEAST_SHARE * shares[is_telling & (paired >= paired[n])].max(initial=0)
    ]


def _alike_by_time(reference: Series, other: Series) -> tuple[Ints, Ints] | None:
    """Pairs of operations that end together, with the clock difference that pairs most of them.

    None if that is less than half of the operations, or if another difference pairs as many. Each
    shift of one rank's operations against the other's means a difference: the one with which most
    of its pairs end together.
    """
    if reference.is_numbered and other.is_numbered:
        _, mine, theirs = np.intersect1d(reference.sequence, other.sequence, return_indices=True)
        return mine, theirs
    reference, other = _single(reference), _single(other)
    ends = [
        (reference.end_ts[mine[same]], other.end_ts[theirs[same]])
        for shift in _shifts(reference, other)
        for mine, theirs in [_overlapping(reference, other, shift)]
        if (same := reference.key[mine] == other.key[theirs]).any()
    ]
    ends.sort(key=lambda pairs: ending_together(*pairs), reverse=True)
    found = [_at_one_time(reference, other, *pairs) for pairs in ends[:_MOST_DIFFERENCES]]
    if not found:
        return None
    mine, theirs = max(found, key=lambda pairs: len(pairs[0]))
    if 2 * len(mine) < min(len(reference), len(other)):
        return None
    partner = np.full(len(reference), -1)
    partner[mine] = theirs
    for others, their_partners in found:
        is_rival = 2 * np.count_nonzero(partner[others] == their_partners) < len(others)
        if is_rival and len(others) >= len(mine):
            return None
    return mine, theirs


def _single(series: Series) -> Series:
    """The same operations, each as its own unit."""
    return replace(series, unit=-1 - np.arange(len(series)))


def _overlapping(reference: Series, other: Series, shift: int) -> tuple[Ints, Ints]:
    """The units of both ranks that are paired with this shift."""
    units, others = len(reference.starts) - 1, len(other.starts) - 1
    mine = np.arange(max(0, shift), min(units, others + shift))
    return mine, mine - shift


def _at_one_time(
    reference: Series, other: Series, reference_ends: Ints, ends: Ints
) -> tuple[Ints, Ints]:
    """The operations that end together by the clock difference that these ends mean."""
    ahead = (ends - reference_ends).astype(np.float64)
    since, since_of_other = reference_ends[0], other.end_ts - reference_ends[0]
    lines = [(0.0, _mode(ahead))]
    if np.ptp(reference_ends) >= DRIFT_SPAN_NS and len(ahead) >= 2 * LEAST_OPERATIONS:
        slope, _ = line_through_thirds((reference_ends - since).astype(np.float64), ahead)
        left = ahead - slope * (reference_ends - since)
        lines.append((slope, _mode(left)))
    found = []
    for slope, offset in lines:
        moved = other.end_ts - np.round(offset + slope * since_of_other).astype(np.int64)
        place = _mutually_nearest(reference.end_ts, moved)
        theirs = np.flatnonzero(place >= 0)
        mine = place[theirs]
        is_near = np.abs(reference.end_ts[mine] - moved[theirs]) <= _TOGETHER_NS // 2
        is_near &= reference.key[mine] == other.key[theirs]
        found.append((mine[is_near], theirs[is_near]))
    return max(found, key=lambda pairs: len(pairs[0]))


def _mode(ahead: Floats) -> float:
    """The middle of the values within _TOGETHER_NS of each other, where most are."""
    values = np.sort(ahead)
    after = np.searchsorted(values, values + _TOGETHER_NS, "right")
    first = int(np.argmax(after - np.arange(len(values))))
    return float(np.median(values[first : after[first]]))


def _received_early(
    reference: Series, other: Series, pairs: tuple[Ints, Ints], sender: int | None
) -> int:
    """How many receives of these pairs end before their sends begin."""
    if sender is None:
        return 0
    mine, theirs = pairs
    if sender == reference.rank:
        return int((other.end_ts[theirs] < reference.ts[mine]).sum())
    return int((reference.end_ts[mine] < other.ts[theirs]).sum())


def _shifts(reference: Series, other: Series) -> Ints:
    """The shifts to try; with shift s, unit n of `other` is unit n + s of `reference`."""
    units, others = len(reference.starts) - 1, len(other.starts) - 1
    shifts = np.arange(1 - others, units)
    if len(shifts) <= _MOST_SHIFTS:
        return shifts
    # The clock difference that a shift means, by the ends of the first unit that both ranks have.
    at_reference, at_other = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    apart = np.abs(reference.unit_spans[1][at_reference] - other.unit_spans[1][at_other])
    return shifts[np.argsort(apart, kind="stable")[:_MOST_SHIFTS]]


def _paired(reference: Series, other: Series, shift: int) -> tuple[Ints, Ints] | None:
    """The pairs of operations with this shift: those of units that look the same on both ranks.

    None if fewer than half of the units overlap, or if too few of their operations are paired.
    """
    mine, theirs = _overlapping(reference, other, shift)
    if 2 * len(mine) < min(len(reference.starts), len(other.starts)) - 1:
        return None
    same = reference.signatures[mine] == other.signatures[theirs]
    operations = np.diff(reference.starts)[mine]
    if operations[same].sum() < _LEAST_LIKENESS * operations.sum():
        return None
    return _operations(reference, mine[same]), _operations(other, theirs[same])


def _operations(series: Series, units: Ints) -> Ints:
    """The places of all operations in these units."""
    counts = np.diff(series.starts)[units]
    firsts = np.repeat(series.starts[:-1][units], counts)
    within: Ints = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return within + firsts


def shared_units(reference: Series, other: Series) -> Ints:
    """For each operation of `other`, the number of the unit of `reference` that it is in.

    It is -1 if the reference lacks the unit. The times of both ranks must be on one clock. All
    ranks end a step within microseconds, so that two steps are the same one if each ends nearest to
    the other. The same holds for single operations with the same key, if at least one of the ranks
    has the operation outside steps.
    """
    step = _mutually_nearest(reference.unit_spans[1], other.unit_spans[1])[other.unit_of_operation]
    are_steps = (other.unit >= 0) & (step >= 0) & (reference.unit[reference.starts[:-1][step]] >= 0)
    alone = _mutually_nearest(reference.end_ts, other.end_ts)
    is_same = (alone >= 0) & (reference.key[alone] == other.key)
    return np.where(are_steps, step, np.where(is_same, reference.unit_of_operation[alone], -1))


def _mutually_nearest(mine: Ints, theirs: Ints) -> Ints:
    """For each time in `theirs`, the place of the nearest one in `mine`.

    It is -1 if a nearer time to that one exists in `theirs`.
    """
    there, back = _nearest(mine, theirs), _nearest(theirs, mine)
    return np.where(back[there] == np.arange(len(theirs)), there, -1)


def _nearest(ends: Ints, wanted: Ints) -> Ints:
    """For each time in `wanted`, the place of the nearest one in `ends`."""
    order = np.argsort(ends, kind="stable")
    place = np.searchsorted(ends, wanted, sorter=order)
    before, after = np.maximum(place - 1, 0), np.minimum(place, len(ends) - 1)
    is_before = np.abs(ends[order[before]] - wanted) <= np.abs(ends[order[after]] - wanted)
    return order[np.where(is_before, before, after)]


def ending_together(reference_ends: Ints, ends: Ints) -> int:
    """The number of operations that end together, apart from a constant offset and perhaps a drift.

    This is the test for whether the operations of two ranks are paired in the right way.
    """
    ahead = (ends - reference_ends).astype(np.float64)
    agreeing = _within(ahead)
    if np.ptp(reference_ends) < DRIFT_SPAN_NS or len(ahead) < 2 * LEAST_OPERATIONS:
        return agreeing
    since = (reference_ends - reference_ends[0]).astype(np.float64)
    slope, intercept = line_through_thirds(since, ahead)
    return max(agreeing, _within(ahead - slope * since - intercept))


def _within(ahead: Floats) -> int:
    """The largest number of values that lie within _TOGETHER_NS of each other."""
    values = np.sort(ahead)
    counts = np.searchsorted(values, values + _TOGETHER_NS, "right") - np.arange(len(values))
    return int(counts.max(initial=0))


def line_through_thirds(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of the line through the medians of the first and the last third."""
    third = max(1, len(x) // 3)
    x0, x1 = float(np.median(x[:third])), float(np.median(x[-third:]))
    y0, y1 = float(np.median(y[:third])), float(np.median(y[-third:]))
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    return slope, y0 - slope * x0


Ranks = Mapping[int, Series]


class KnownClock(NamedTuple):
    """What is known of a rank's clock; as in table `clock`."""

    compared_with: int
    tolerance_ns: int


def series_by_communicator(operations: Columns) -> dict[int, dict[int, Series]]:
    """The operations of each communicator, by rank; communicators and ranks are in order.

    Args:
        operations: the columns communicator_id, rank and those of Series, in order of time.
    """
    columns = dict(operations)
    communicator, rank = columns.pop("communicator_id"), columns.pop("rank")
    found: dict[int, dict[int, Series]] = defaultdict(dict)
    for number, one in sorted(set(zip(communicator.tolist(), rank.tolist(), strict=True))):
        own = (communicator == number) & (rank == one)
        found[number][one] = Series(one, **{name: c[own] for name, c in columns.items()})
    return found


def shared_numbers(
    ranks: Ranks,
    *,
    sender: int | None,
    incomplete: Collection[int] = (),
    clocks: Mapping[int, KnownClock] | None = None,
) -> list[tuple[Series, Ints]]:
    """For each rank of a communicator, its operations with a number for the unit of each.

    A unit is a step, or a single operation outside steps. Numbers are those of the units on the
    rank that has most operations; they are the same on all ranks. An operation whose unit that
    rank lacks has the number -1.

    Args:
        ranks: the operations of each rank.
        sender: the rank that sends, if data goes one way. Then a send may end long before it is
            received, so that units are matched by their order alone.
        incomplete: ranks that are known to lack operations, or their times.
        clocks: those of the ranks; None if all are the same.
    """
    reference = max(ranks.values(), key=len)
    found = []
    for series in ranks.values():
        if series is reference:
            found.append((series, series.unit_of_operation))
        elif series.is_numbered and reference.is_numbered:
            there = {sequence: unit for unit, sequence in enumerate(reference.sequence.tolist())}
            unit = [there.get(sequence, -1) for sequence in series.sequence.tolist()]
            found.append((series, np.array(unit, np.int64)))
        elif sender is not None:
            found.append((series, _in_order(reference, series, sender)))
        else:
            is_whole = {reference.rank, series.rank}.isdisjoint(incomplete)
            of_two = [clocks[one.rank] for one in (reference, series)] if clocks else []
            found.append((series, _by_time(reference, series, of_two, is_whole=is_whole)))
    return found


def _by_time(
    reference: Series, series: Series, clocks: Sequence[KnownClock], *, is_whole: bool
) -> Ints:
    """The units of `shared_units`, without those that time does not show for sure.

    If clocks were never compared, the order must show the same, and no operation may be lacking.
    If one lacks operations, an operation that ends soon after another one may be either.
    """
    unit = shared_units(reference, series)
    nothing = np.full_like(unit, -1)
    if len({one.compared_with for one in clocks}) > 1:
        is_sure = is_whole and np.array_equal(unit, reference.unit_of_operation)
        return unit if is_sure else nothing
    if is_whole:
        return unit
    apart_ns = max([_TOGETHER_NS, *(one.tolerance_ns for one in clocks)])
    ends = reference.unit_spans[1][unit]
    is_sure = np.abs(series.end_ts - ends) <= apart_ns
    is_sure &= ~(_crowded(reference, apart_ns)[reference.starts[:-1][unit]])
    is_sure &= ~_crowded(series, apart_ns)
    return np.where((series.unit >= 0) | is_sure, unit, nothing)


def _crowded(series: Series, apart_ns: int) -> Bools:
    """Whether an operation ends within this time of another one."""
    order = np.argsort(series.end_ts, kind="stable")
    is_close = np.diff(series.end_ts[order]) <= apart_ns
    found = np.zeros(len(series), np.bool_)
    found[order[1:]] = is_close
    found[order[:-1]] |= is_close
    return found


def _in_order(reference: Series, series: Series, sender: int) -> Ints:
    """For each operation of `series`, its counterpart on the reference by order; -1 if none."""
    unit = np.full(len(series), -1)
    pairs = alike(reference, series, sender=sender)
    if pairs is not None:
        unit[pairs[1]] = pairs[0]
    return unit
