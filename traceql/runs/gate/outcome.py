"""The result of a gate: one outcome for each criterion, and a verdict on all."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from traceql.runs.compare.setup import Difference
from traceql.runs.gate.criterion import Criterion


class Verdict(StrEnum):
    """The verdict on one criterion, or on all; the worst first."""

    REGRESSION = "regression"
    NOT_COMPARABLE = "not comparable"
    INCONCLUSIVE = "inconclusive"
    NO_REGRESSION = "no regression"


STATUS = {
    Verdict.REGRESSION: 1,
    Verdict.NOT_COMPARABLE: 3,
    Verdict.INCONCLUSIVE: 3,
    Verdict.NO_REGRESSION: 0,
}


@dataclass(frozen=True)
class Numbers:
    """One metric on both sides.

    Attributes:
        base, new: medians of the runs, in `unit`: ns or tokens/s.
        change_pct: Hodges-Lehmann estimate of the change, percent.
        low_pct, high_pct: its interval; None with too few runs.
        percent_of: itself, or step if a run has none of it.
        p: of the test without correction; None with too few runs.
        base_values, new_values: the value of each run.
    """

    base: float
    new: float
    unit: str
    change_pct: float
    low_pct: float | None
    high_pct: float | None
    percent_of: str
    p: float | None
    base_values: Sequence[float]
    new_values: Sequence[float]


@dataclass(frozen=True)
class Cause:
    """A part of the step that takes longer.

    Attributes:
        part: as in the table waterfall.
        role: role of the kernels; None for idle time.
        cause: why the GPU is idle; None otherwise.
        delta_ns: how much longer the step takes because of it, ns.
        base_kernels, new_kernels: names of the kernels, the longest first.
    """

    part: str
    role: str | None
    cause: str | None
    delta_ns: int
    base_kernels: tuple[str, ...] = ()
    new_kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The decision on one criterion.

    Attributes:
        reason: why the verdict is not more definite; empty if it is definite.
        numbers: None if the metric is not on both sides.
        improved: whether the whole interval is an improvement.
        runs_needed: runs on each side that would decide; None if unknown, or if there are enough.
        causes: the parts that take longer, the largest first; only of regressions.
    """

    criterion: Criterion
    verdict: Verdict
    reason: str = ""
    numbers: Numbers | None = None
    improved: bool = False
    runs_needed: int | None = None
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True)
class Side:
    """The names of the runs of a side, and the compared share of their time in steps."""

    runs: tuple[str, ...]
    compared_pct: float | None


@dataclass(frozen=True)
class Gate:
    """The result of a gate.

    Attributes:
        outcomes: one for each criterion, in their order.
        notes: sentences about all criteria.
        differences: of the set-ups.
    """

    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    differences: tuple[Difference, ...]
    base: Side
    new: Side

    @cached_property
    def verdict(self) -> Verdict:
        """The worst one."""
        order = list(Verdict)
        return min((one.verdict for one in self.outcomes), key=order.index)

    @property
    def exit_status(self) -> int:
        return STATUS[self.verdict]

    def count(self, verdict: Verdict) -> int:
        return sum(one.verdict is verdict for one in self.outcomes)
