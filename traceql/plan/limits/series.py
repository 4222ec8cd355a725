"""The measured durations of one collective, by size."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Literal

from traceql.database.loading.peaks_document import Collective, PeaksDocument
from traceql.plan.limits.alpha_beta import AlphaBeta, alpha_beta
from traceql.plan.limits.bus import bus_factor
from traceql.plan.limits.copies import COPIES

Timing = Literal["launch", "kernel"]


@dataclass(frozen=True)
class Series:
    """One way to carry out an operation among so many ranks.

    Attributes:
        source: the program that measured it; None for traceql.
        timing: launch, from one launch to the next; kernel, of the kernel on the rank that began it
            last, as a trace shows its transfer.
        ns: by size of the buffer in bytes, ascending; the median of equal sizes.
        fit: None for fewer than two sizes.
    """

    op: str
    ranks: int
    algorithm: str
    source: str | None
    timing: Timing
    ns: Mapping[int, float]
    fit: AlphaBeta | None

    @classmethod
    def of_points(
        cls,
        op: str,
        ranks: int,
        algorithm: str,
        timing: Timing,
        points: Iterable[tuple[int, float]],
        *,
        source: str | None = None,
    ) -> "Series":
        """The series of (bytes, ns) in any order."""
        ns, factor = _by_size(points), bus_factor(op, ranks)
        fit = alpha_beta([size * factor for size in ns], list(ns.values()))
        return cls(op, ranks, algorithm, source, timing, ns, fit)

    @property
    def factor(self) -> float:
        return bus_factor(self.op, self.ranks)


def collective_series(peaks: PeaksDocument, timing: Timing) -> list[Series]:
    """All series with durations of this timing at each size; copies between two GPUs are not."""
    found = [one for one in peaks.collectives if one.op not in COPIES]
    return [
        series
        for _, rows in groupby(sorted(found, key=_key), _key)
        if (series := _series(list(rows), timing))
    ]


def _key(row: Collective) -> tuple[str, int, str, str]:
    return row.op, row.ranks, row.algorithm, row.source or ""


def _series(rows: list[Collective], timing: Timing) -> Series | None:
    durations = [row.ns if timing == "launch" else row.kernel_ns for row in rows]
    known = [one for one in durations if one is not None]
    if len(known) < len(rows):
        return None
    points = [(row.bytes, one) for row, one in zip(rows, known, strict=True)]
    first = rows[0]
    return Series.of_points(
        first.op, first.ranks, first.algorithm, timing, points, source=first.source
    )


def _by_size(points: Iterable[tuple[int, float]]) -> dict[int, float]:
    ordered = sorted(points)
    return {
        size: median(ns for _, ns in same) for size, same in groupby(ordered, lambda one: one[0])
    }
