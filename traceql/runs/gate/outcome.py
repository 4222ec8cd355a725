"""What a gate says: one outcome for each criterion, and one for all."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from traceql.runs.compare.setup import Difference
from traceql.runs.gate.criterion import Criterion


class Verdict(StrEnum):
    """What can be said about one criterion, or about all; the worst first."""

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
    """The numbers of one metric on both sides.

    Attributes:
        base: median of the runs of base, in `unit`.
        new: the same of new.
        unit: ns or tokens/s.
        change_pct: Hodges-Lehmann estimate of the change, percent.
        low_pct: lower end of its interval; None with too few runs.
        high_pct: its upper end.
        percent_of: itself, or step if a run has none of it.
        p: of the test without correction; None with too few runs.
        base_values: the value of each run of base.
        new_values: the same of new.
    """

    base: float
    new: float
    unit: str
    change_pct: float
    low_pct: float | None
    high_pct: float | None
    percent_of: str
    p: float | None
    base_values: tuple[float, ...]
    new_values: tuple[float, ...]


@dataclass(frozen=True)
class Cause:
    """A part of the step that takes longer.

    Attributes:
        part: as in the table waterfall.
        role: role of the kernels; None for idle time.
        cause: why the GPU is idle; None otherwise.
        delta_ns: by how much the step takes longer because of it, ns.
        base_kernels: names of the kernels, the longest first.
        new_kernels: the same of new.
    """

    part: str
    role: str | None
    cause: str | None
    delta_ns: int
    base_kernels: tuple[str, ...] = ()
    new_kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What can be said about one criterion.

    Attributes:
        criterion: the criterion.
        verdict: what can be said.
        reason: why it is not more; empty if nothing is missing.
        numbers: None if the metric is not on both sides.
        improved: whether the interval leaves out no change, on the better side.
        runs_needed: how many runs on each side would do; None if unknown, or if there are enough.
        causes: what takes longer, the most first; only of regressions.
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
    """One side: the names of its runs, and how much of their time in steps is compared."""

    runs: tuple[str, ...]
    compared_pct: float | None


@dataclass(frozen=True)
class Gate:
    """What a gate says.

    Attributes:
        outcomes: one for each criterion, in their order.
        notes: what holds for all criteria, one sentence each.
        differences: what differs between the set-ups.
        base: the runs of base.
        new: the runs of new.
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
