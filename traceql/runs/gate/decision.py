"""Decides the criteria of a gate, and names the causes of regressions."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import comb
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from traceql.database.database import Database
from traceql.errors import TraceqlError
from traceql.runs.compare.comparison import SIDES, Comparison
from traceql.runs.compare.setup import Difference, Effect, is_accepted
from traceql.runs.compare.sides import RunProfile, groups_of
from traceql.runs.compare.verdict import CONFIDENCE, LEAST_RUNS, NOISE, holm, runs_for
from traceql.runs.gate.comparability import ComparedMetrics
from traceql.runs.gate.criterion import ALL_PHASES, Criterion, Metric, criteria
from traceql.util.text import format_count


class Verdict(StrEnum):
    """The verdict on one criterion, or on all; the worst first."""

    REGRESSION = "regression"
    NOT_COMPARABLE = "not comparable"
    INCONCLUSIVE = "inconclusive"
    NO_REGRESSION = "no regression"


_STATUS = {Verdict.REGRESSION: 1, Verdict.NO_REGRESSION: 0}


class Numbers(NamedTuple):
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


class Cause(NamedTuple):
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
    base_kernels: tuple[str, ...]
    new_kernels: tuple[str, ...]


class Outcome(NamedTuple):
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


class Side(NamedTuple):
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
        return next(verdict for verdict in Verdict if self.count(verdict))

    @property
    def exit_status(self) -> int:
        return _STATUS.get(self.verdict, 3)

    def count(self, verdict: Verdict) -> int:
        return sum(one.verdict is verdict for one in self.outcomes)


_MAX_CAUSES = 3
_MIN_SHARE = 0.01  # of the largest cause
_MAX_KERNELS = 2  # of each side
_MAX_RUNS = 50  # of runs_for
_ERROR = 1 - CONFIDENCE
_HASH = "trace.sha256"
_COMPARED_TABLES = ("stratum", "metric", "window_part")  # equal only in equal recordings
_WATERFALL = """
    SELECT part, role, cause, delta_ns
    FROM waterfall
    WHERE scope = $scope AND delta_ns > 0
    ORDER BY delta_ns DESC, part, role, cause
"""
_KERNELS = """
    SELECT name
    FROM kernel_use
    WHERE scope = $scope AND side = $side AND role = $role
    ORDER BY ns DESC, name
    LIMIT $limit
"""


Source = str | Path | Database


def gate(
    base: Source | Sequence[Source],
    new: Source | Sequence[Source],
    *,
    fail_on: str | Sequence[str],
    accept: Collection[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> Gate:
    """Whether new is slower than base, by criteria.

    Args:
        base: a database, run directory, folder of traces, trace, baseline or Run; or several
            repeats. A folder with databases or run directories holds a repeat for each.
        new: the same for the other side.
        fail_on: criteria such as "decode.step > 2%".
        accept: names of differences of the set-up that do not forbid a verdict, as of diff.
        say: called with a line about each run directory or trace before it is loaded.

    Raises:
        CriterionInvalid: a criterion is wrong.
        TraceqlError: there is no criterion, a path cannot be read, or a recording is named twice.
    """
    wanted = criteria([fail_on] if isinstance(fail_on, str) else fail_on)
    sides = [[side] if isinstance(side, Source) else side for side in (base, new)]
    paths = [[one.path if isinstance(one, Database) else one for one in side] for side in sides]
    base_runs, new_runs = groups_of(paths, say=say)
    return decide(base_runs, new_runs, wanted, accept=accept)


def decide(
    base: Sequence[RunProfile],
    new: Sequence[RunProfile],
    criteria: Sequence[Criterion],
    *,
    accept: Collection[str] = (),
) -> Gate:
    """Decides criteria; raises TraceqlError without one, or if a recording is named twice."""
    if not criteria:
        raise TraceqlError('there is no criterion; add --fail-on "decode.step > 2%"')
    require_different((*base, *new))
    with Comparison(base, new, accept=accept) as comparison:
        compared = ComparedMetrics(comparison, criteria)
        outcomes = _outcomes(criteria, compared, _workload(comparison, accept))
        explained = tuple(
            one._replace(causes=tuple(_causes(comparison, one.criterion)))
            if one.verdict is Verdict.REGRESSION
            else one
            for one in outcomes
        )
        shares = compared.shares_pct.get(ALL_PHASES, {})
        base_side, new_side = (
            Side(tuple(run.name for run in runs), shares.get(side))
            for side, runs in (("base", base), ("new", new))
        )
        notes = tuple(_notes(outcomes, len(base), len(new)))
        return Gate(explained, notes, comparison.differences, base_side, new_side)


def require_different(runs: Sequence[RunProfile]) -> None:
    """Raises TraceqlError if a recording counts twice: it would be a repeat without noise."""
    for number, one in enumerate(runs):
        for other in runs[:number]:
            if _is_same(one, other):
                raise TraceqlError(
                    f"{other.name} and {one.name} are the same recording; each run counts once, "
                    "and on one side"
                )


def _is_same(one: RunProfile, other: RunProfile) -> bool:
    hashes = [
        {fact["value"] for fact in run.profile["fact"].to_pylist() if fact["name"] == _HASH}
        for run in (one, other)
    ]
    if hashes[0] and hashes[0] == hashes[1]:
        return True
    return all(one.profile[name].equals(other.profile[name]) for name in _COMPARED_TABLES)


def _workload(comparison: Comparison, accept: Collection[str]) -> str:
    """How the workloads differ; empty if they do not, or if that is accepted."""
    names = [
        one.name
        for one in comparison.differences
        if one.name.startswith("workload.")
        and one.effect is not Effect.IGNORED
        and not is_accepted(one.name, accept)
    ]
    if not names:
        return ""
    return f"other workload ({', '.join(names)}); use --accept workload to compare anyway"


def _outcomes(
    criteria: Sequence[Criterion], compared: ComparedMetrics, workload: str
) -> list[Outcome]:
    rows = {one: compared.row(one) for one in criteria}
    numbers = {
        one: None if row is None else Numbers(*(row[name] for name in Numbers._fields))
        for one, row in rows.items()
    }
    obstacles = {
        one: compared.obstacle(one) or ("" if one.metric.has_scope else workload)
        for one in criteria
    }
    p_values = {str(one): found.p for one, found in numbers.items() if found and not obstacles[one]}
    held = holm(p_values)
    tests = sum(p is not None for p in p_values.values())
    return [
        _outcome(one, found, compared.step_ns(one.scope), held=held[str(one)], tests=tests)
        if found and not obstacles[one]
        else Outcome(one, Verdict.NOT_COMPARABLE, obstacles[one], found)
        for one, found in numbers.items()
    ]


def _outcome(
    criterion: Criterion, numbers: Numbers, step_ns: float, *, held: bool, tests: int
) -> Outcome:
    base, new = numbers.base_values, numbers.new_values
    if numbers.low_pct is None or numbers.high_pct is None:
        runs = f"{len(base)} and {len(new)} runs"
        if len(base) == len(new):
            runs = f"{format_count(len(base), 'run')} a side"
        reason = f"{runs}; an interval needs {LEAST_RUNS} on each side, better 5"
        return Outcome(criterion, Verdict.INCONCLUSIVE, reason, numbers, runs_needed=LEAST_RUNS)
    worse, low, high = numbers.change_pct, numbers.low_pct, numbers.high_pct
    if criterion.metric.more_is_better:
        worse, low, high = -worse, -high, -low
    # Growth from zero exceeds any limit, unless it is negligible within the step.
    limit, scale = criterion.limit_pct, 1.0
    if numbers.percent_of != "itself":
        limit, scale = min(limit, 100 * NOISE), step_ns
    if high <= limit:
        return Outcome(criterion, Verdict.NO_REGRESSION, "", numbers, improved=high < 0)
    if worse > limit and low > 0 and held:
        return Outcome(criterion, Verdict.REGRESSION, "", numbers)
    least = min(len(base), len(new)) + 1
    if worse > limit:
        # Runs with which the change would be beyond chance among all tests.
        margin = worse * _quantile(_ERROR) / _quantile(_ERROR / tests)
        least = max(least, least_runs(tests))
        why = f"among {tests} criteria at once, it may be chance" if low > 0 else "it may be chance"
    else:
        margin = limit - worse  # the interval ends below the limit
        why = f"it may be more than {limit:g}%"
    needed = runs_for(base, new, margin / 100 * scale)
    needed = needed and max(needed, least)
    enough = f"{needed} runs on each side would decide"
    if not needed:
        enough = f"more than {_MAX_RUNS} runs on each side are needed"
    return Outcome(criterion, Verdict.INCONCLUSIVE, f"{why}; {enough}", numbers, runs_needed=needed)


def _quantile(error: float) -> float:
    return NormalDist().inv_cdf(1 - error / 2)


def _notes(outcomes: Sequence[Outcome], base: int, new: int) -> Iterator[str]:
    tests = sum(
        one.numbers is not None
        and one.numbers.p is not None
        and one.verdict is not Verdict.NOT_COMPARABLE
        for one in outcomes
    )
    smallest = smallest_p(base, new)
    if tests and smallest > _ERROR / tests:
        yield (
            f"With {base} and {new} runs, no regression can be shown in {tests} criteria at once: "
            f"the smallest p is {smallest:.2g}, and Holm's correction requires "
            f"{_ERROR / tests:.2g}. Use {least_runs(tests)} runs on each side, or fewer criteria."
        )


def smallest_p(base: int, new: int) -> float:
    return 2 / comb(base + new, new)


def least_runs(tests: int) -> int:
    """The runs on each side with which this many tests at once can find a regression."""
    runs = LEAST_RUNS
    while smallest_p(runs, runs) > _ERROR / tests:
        runs += 1
    return runs


def _causes(comparison: Comparison, criterion: Criterion) -> Iterator[Cause]:
    """The parts of the metric whose time grew most."""
    scope = criterion.scope or ALL_PHASES

    def kernels(side: str, role: str | None) -> tuple[str, ...]:
        found = comparison.table(_KERNELS, scope=scope, side=side, role=role, limit=_MAX_KERNELS)
        return tuple(row["name"] for row in found)

    rows = [
        row
        for row in comparison.table(_WATERFALL, scope=scope)
        if _is_about(criterion.metric, row["part"], row["role"], row["cause"])
    ]
    for row in rows[:_MAX_CAUSES]:
        if row["delta_ns"] >= _MIN_SHARE * rows[0]["delta_ns"]:
            base, new = (kernels(side, row["role"]) for side in SIDES)
            yield Cause(**row, base_kernels=base, new_kernels=new)


def _is_about(metric: Metric, part: str, role: str | None, cause: str | None) -> bool:
    name = metric.name
    if metric.kind == "role":  # without waiting
        return role in name.split("+") and part != "exposed_wait"
    if name == "busy":
        return part not in ("exposed_wait", "idle", "other_step", "median_less_mean")
    if metric.kind == "part":
        is_comm = name == "exposed_comm" and part.startswith("exposed_") and part != "exposed_copy"
        return is_comm or name in (part, f"{part}.{cause}")
    return True
