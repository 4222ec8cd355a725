"""Measures how the clocks of ranks differ, by the ends of operations that they share."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from traceql.analysis.collectives.operation_matching import (
    DRIFT_SPAN_NS,
    LEAST_OPERATIONS,
    Floats,
    Ints,
    Ranks,
    alike,
    line_through_thirds,
)

_BETTER = 1.25  # a line counts if it leaves this many times less error than a constant
# Two ranks share a clock unless the ends of operations differ by more than this time, and by more
# than this many times their scatter.
_SHARED_NS = 5_000
_SHARED_SPREADS = 10
_EXACT_NS = 2_000  # the ends of operations may differ by this on a shared clock


@dataclass(frozen=True)
class Difference:
    """How far a rank's clock is ahead of another: offset_ns + drift x (ts - at_ns).

    Attributes:
        drift: ns per ns.
        residual_ns: the error of 9 of 10 ends of operations is at most this.
        spread_ns: the median error of the ends of operations.
        span_ns: the time from the first end to the last one.
        operations: the number of operations that it was measured with.
    """

    offset_ns: int
    drift: float
    at_ns: int
    residual_ns: int
    spread_ns: float
    span_ns: int
    operations: int

    def inverse(self) -> "Difference":
        """The difference of the other rank's clock to this rank's clock."""
        return replace(self, offset_ns=-self.offset_ns, drift=-self.drift)

    def after(self, other: "Difference") -> "Difference":
        """The difference to a third rank.

        Args:
            other: the difference to the third rank of the rank that this one was compared with.
        """
        then = other.offset_ns + other.drift * (self.at_ns - other.at_ns)
        return replace(
            self,
            offset_ns=self.offset_ns + round(then),
            drift=self.drift + other.drift,
            residual_ns=self.residual_ns + other.residual_ns,
        )

    @property
    def is_shared(self) -> bool:
        """Whether the difference is so small that the two ranks share a clock."""
        most = abs(self.offset_ns) + abs(self.drift) * self.span_ns / 2
        return most <= max(_SHARED_NS, _SHARED_SPREADS * self.spread_ns)

    @property
    def uncertainty_ns(self) -> int:
        """The error of times if the clock is taken as shared, ns."""
        return abs(self.offset_ns) if abs(self.offset_ns) > _EXACT_NS else 0


def tolerance_ns(residual_ns: int) -> int:
    """The largest difference at which times by two corrected clocks may be the same instant."""
    return _SHARED_NS + 2 * residual_ns


def difference(reference_ends: Ints, ends: Ints, kind: Ints) -> Difference | None:
    """The difference of a rank's clock to the reference, from operations that both executed.

    It is measured with the kind of kernel whose ends scatter least: ranks end a ring up to 10 us
    apart, depending on their place in it, but a one-shot all-reduce within 0.2 us. None if there
    are fewer than 5 operations of each kind.

    Args:
        reference_ends: the end of each operation on the reference, ns.
        ends: the end of the same operations on the rank, ns.
        kind: a number for the kind of kernel of each operation.
    """
    fits = [
        _fit(reference_ends[kind == one], ends[kind == one])
        for one in np.unique(kind)
        if np.count_nonzero(kind == one) >= LEAST_OPERATIONS
    ]
    return min(fits, key=lambda fit: fit.spread_ns, default=None)


def _fit(reference: Ints, ends: Ints) -> Difference:
    """A constant difference, or one with a drift if a line fits the ends clearly better."""
    ahead = (ends - reference).astype(np.float64)
    at_ns = int(np.median(ends))
    since = (ends - at_ns).astype(np.float64)
    constant = _measured(ahead, 0.0, float(np.median(ahead)), at_ns, since)
    if np.ptp(ends) < DRIFT_SPAN_NS:
        return constant
    drifting = _measured(ahead, *_line(since, ahead), at_ns, since)
    return drifting if drifting.spread_ns * _BETTER < constant.spread_ns else constant


def _measured(ahead: Floats, drift: float, offset: float, at_ns: int, since: Floats) -> Difference:
    """The difference with this offset and drift, and the errors that it leaves.

    Args:
        ahead: how much later each operation ended on the rank, ns.
        since: the end of each operation, ns since at_ns.
    """
    left = np.abs(ahead - offset - drift * since)
    return Difference(
        offset_ns=round(offset),
        drift=drift,
        at_ns=at_ns,
        residual_ns=round(float(np.quantile(left, 0.9))),
        spread_ns=float(np.median(left)),
        span_ns=int(np.ptp(since)),
        operations=len(ahead),
    )


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of a line through the points, by least squares without outliers."""
    slope, intercept = line_through_thirds(x, y)
    for _ in range(3):
        left = np.abs(y - slope * x - intercept)
        close = left <= max(3 * float(np.median(left)), 1.0)
        slope, intercept = np.polyfit(x[close], y[close], 1)
    return float(slope), float(intercept)


def clocks(
    roots: Iterable[int], groups: Iterable[Ranks], incomplete: Collection[int] = ()
) -> list[dict[str, object]]:
    """The rows of table `clock`, one per rank.

    Args:
        roots: all ranks, the lowest first. A rank that no operations connect with a lower one is
            the reference rank of all ranks that operations connect with it.
        groups: for each communicator in which data does not go one way, the operations of each
            of its ranks.
        incomplete: ranks that are known to lack operations, or their times.
    """
    neighbours = _neighbours(groups, incomplete)
    applied: dict[int, Difference | None] = {}
    rows: list[dict[str, object]] = []
    for root in roots:
        if root in applied:
            continue
        applied[root] = None
        rows.append(_row(root, root, None, None))
        waiting = deque([root])
        while waiting:  # the nearest ranks first
            via = waiting.popleft()
            before = applied[via]
            for rank, found in neighbours.get(via, {}).items():
                if rank not in applied:
                    own = None if found.is_shared else found
                    applied[rank] = own.after(before) if own and before else own or before
                    rows.append(_row(rank, root, applied[rank], found))
                    waiting.append(rank)
    return rows


def _row(
    rank: int, root: int, applied: Difference | None, found: Difference | None
) -> dict[str, object]:
    """The row of one rank.

    Args:
        root: its reference rank.
        applied: the correction to the reference clock; None if the clock is shared.
        found: the measured difference to the rank before it; None for the reference rank.
    """
    source = "ends of operations" if applied else "shared" if found else "reference"
    residual_ns = applied.residual_ns if applied else found.uncertainty_ns if found else 0
    return {
        "rank": rank,
        "compared_with": root,
        "offset_ns": applied.offset_ns if applied else 0,
        "drift": applied.drift if applied else 0.0,
        "at_ns": applied.at_ns if applied else 0,
        "residual_ns": residual_ns,
        "tolerance_ns": tolerance_ns(residual_ns),
        "measured_ns": found and found.offset_ns,
        "operations": found.operations if found else 0,
        "source": source,
    }


def _neighbours(
    groups: Iterable[Ranks], incomplete: Collection[int]
) -> Mapping[int, Mapping[int, Difference]]:
    """The differences between the clocks of two ranks, for pairs that a communicator connects.

    In each communicator, all ranks are compared with the one that has most operations. The first
    communicator with a pair's difference counts.
    """
    found: dict[int, dict[int, Difference]] = defaultdict(dict)
    for ranks in groups:
        reference = max(ranks.values(), key=len)
        for series in ranks.values():
            if series is reference or series.rank in found[reference.rank]:
                continue
            is_whole = reference.rank not in incomplete and series.rank not in incomplete
            pairs = alike(reference, series, is_whole=is_whole)
            if pairs is None:
                continue
            # All ranks end these together; the sender of a broadcast may end it long before others.
            sharp = reference.synchronising[pairs[0]]
            mine, theirs = pairs[0][sharp], pairs[1][sharp]
            kind = reference.kind[mine]
            if measured := difference(reference.end_ts[mine], series.end_ts[theirs], kind):
                found[reference.rank][series.rank] = measured
                found[series.rank][reference.rank] = measured.inverse()
    return found
