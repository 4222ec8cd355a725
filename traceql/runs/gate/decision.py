"""Decides the criteria of a gate, and names the causes of regressions."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import comb
from pathlib import Path
from statistics import NormalDist

from traceql.errors import TraceqlError
from traceql.runs.compare.comparison import Comparison
from traceql.runs.compare.setup import Effect, is_accepted
from traceql.runs.compare.sides import RunProfile, groups_of
from traceql.runs.compare.verdict import CONFIDENCE, LEAST_RUNS, NOISE, holm, runs_for
from traceql.runs.gate.comparability import ComparedMetrics
from traceql.runs.gate.criterion import ALL_PHASES, Criterion, Metric, criteria
from traceql.runs.gate.outcome import Cause, Gate, Numbers, Outcome, Side, Verdict
from traceql.util.text import format_count

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


def gate(
    base: str | Path | Sequence[str | Path],
    new: str | Path | Sequence[str | Path],
    *,
    fail_on: str | Sequence[str],
    accept: Collection[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> Gate:
    """Whether new is slower than base, by criteria.

    Args:
        base: a database, run directory, folder of traces, trace or baseline; or several repeats.
            A folder with databases or run directories holds a repeat for each.
        new: the same for the other side.
        fail_on: criteria such as "decode.step > 2%".
        accept: names of differences of the set-up that do not forbid a verdict, as of diff.
        say: called with a line about each run directory or trace before it is loaded.

    Raises:
        CriterionInvalid: a criterion is wrong.
        TraceqlError: there is no criterion, a path cannot be read, or a recording is named twice.
    """
    wanted = criteria([fail_on] if isinstance(fail_on, str) else fail_on)
    sides = [[one] if isinstance(one, str | Path) else list(one) for one in (base, new)]
    base_runs, new_runs = groups_of(sides, say=say)
    return decide(base_runs, new_runs, wanted, accept=accept)


def decide(
    base: Sequence[RunProfile],
    new: Sequence[RunProfile],
    criteria: Sequence[Criterion],
    *,
    accept: Collection[str] = (),
) -> Gate:
    """Decides criteria by the runs of two sides.

    Raises:
        TraceqlError: there is no criterion, a side has no run, or a recording is named twice.
    """
    if not criteria:
        raise TraceqlError('there is no criterion; add --fail-on "decode.step > 2%"')
    require_different((*base, *new))
    with Comparison(base, new, accept=accept) as comparison:
        compared = ComparedMetrics(comparison, criteria)
        outcomes = _outcomes(criteria, compared, _workload(comparison, accept))
        explained = tuple(
            replace(one, causes=_causes(comparison, one.criterion))
            if one.verdict is Verdict.REGRESSION
            else one
            for one in outcomes
        )
        return Gate(
            explained,
            tuple(_notes(outcomes, len(base), len(new))),
            comparison.differences,
            Side(tuple(run.name for run in base), compared.share("base", "all")),
            Side(tuple(run.name for run in new), compared.share("new", "all")),
        )


def require_different(runs: Sequence[RunProfile]) -> None:
    """Requires that no recording counts twice: it would look like a repeat without noise.

    Raises:
        TraceqlError: two of the runs are the same recording.
    """
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
    numbers = {one: compared.numbers(one) for one in criteria}
    obstacles = {
        one: compared.obstacle(one) or ("" if one.metric.has_scope else workload)
        for one in criteria
    }
    tested = {
        one: found for one, found in numbers.items() if found is not None and not obstacles[one]
    }
    p_values = {str(one): found.p for one, found in tested.items()}
    held = holm(p_values)
    tests = sum(p is not None for p in p_values.values())
    return [
        _outcome(one, tested[one], compared.step_ns(one.scope), held=held[str(one)], tests=tests)
        if one in tested
        else Outcome(one, Verdict.NOT_COMPARABLE, obstacles[one], numbers[one])
        for one in criteria
    ]


def _outcome(
    criterion: Criterion, numbers: Numbers, step_ns: float, *, held: bool, tests: int
) -> Outcome:
    if numbers.low_pct is None or numbers.high_pct is None:
        base, new = len(numbers.base_values), len(numbers.new_values)
        runs = f"{format_count(base, 'run')} a side" if base == new else f"{base} and {new} runs"
        reason = f"{runs}; an interval needs {LEAST_RUNS} on each side, better 5"
        return Outcome(criterion, Verdict.INCONCLUSIVE, reason, numbers, runs_needed=LEAST_RUNS)
    worse, low, high = numbers.change_pct, numbers.low_pct, numbers.high_pct
    if criterion.metric.more_is_better:
        worse, low, high = -worse, -high, -low
    improved = high < 0
    # Growth from zero exceeds any limit, unless it is negligible within the step.
    limit = criterion.limit_pct
    if numbers.percent_of != "itself":
        limit = min(limit, 100 * NOISE)
    if high <= limit:
        return Outcome(criterion, Verdict.NO_REGRESSION, "", numbers, improved=improved)
    if worse > limit and low > 0 and held:
        return Outcome(criterion, Verdict.REGRESSION, "", numbers)
    if worse > limit:
        # Runs with which the change would be beyond chance among so many tests.
        wider = _quantile(_ERROR / tests) / _quantile(_ERROR)
        needed = _more_runs(numbers, worse / wider, step_ns)
        needed = needed and max(needed, least_runs(tests))
        why = "it may be chance"
        if low > 0:
            why = f"among {tests} criteria at once, it may be chance"
    else:
        needed = _more_runs(numbers, limit - worse, step_ns)  # the interval ends below the limit
        why = f"it may be more than {limit:g}%"
    enough = (
        f"{needed} runs on each side would decide"
        if needed
        else f"more than {_MAX_RUNS} runs on each side are needed"
    )
    return Outcome(criterion, Verdict.INCONCLUSIVE, f"{why}; {enough}", numbers, runs_needed=needed)


def _more_runs(numbers: Numbers, margin_pct: float, step_ns: float) -> int | None:
    base, new = numbers.base_values, numbers.new_values
    scale = 1.0 if numbers.percent_of == "itself" else step_ns
    runs = runs_for(base, new, margin_pct / 100 * scale)
    return runs and max(runs, min(len(base), len(new)) + 1)


def _quantile(error: float) -> float:
    return NormalDist().inv_cdf(1 - error / 2)


def _notes(outcomes: Sequence[Outcome], base: int, new: int) -> list[str]:
    tests = sum(
        one.numbers is not None
        and one.numbers.p is not None
        and one.verdict is not Verdict.NOT_COMPARABLE
        for one in outcomes
    )
    smallest = smallest_p(base, new)
    if not tests or smallest <= _ERROR / tests:
        return []
    return [
        f"With {base} and {new} runs, no regression can be shown in {tests} criteria at once: the "
        f"smallest p is {smallest:.2g}, and Holm's correction requires {_ERROR / tests:.2g}. Use "
        f"{least_runs(tests)} runs on each side, or fewer criteria."
    ]


def smallest_p(base: int, new: int) -> float:
    """The smallest p-value that is possible with so many runs."""
    return 2 / comb(base + new, new)


def least_runs(tests: int) -> int:
    """The runs on each side with which so many tests at once can find a regression."""
    runs = LEAST_RUNS
    while smallest_p(runs, runs) > _ERROR / tests:
        runs += 1
    return runs


def _causes(comparison: Comparison, criterion: Criterion) -> tuple[Cause, ...]:
    """The parts of the metric whose time grew most."""
    scope = criterion.scope or ALL_PHASES
    rows = [
        row
        for row in comparison.table(_WATERFALL, scope=scope)
        if _is_about(criterion.metric, row["part"], row["role"], row["cause"])
    ]
    return tuple(
        Cause(
            **row,
            base_kernels=_kernels(comparison, scope, "base", row["role"]),
            new_kernels=_kernels(comparison, scope, "new", row["role"]),
        )
        for row in rows[:_MAX_CAUSES]
        if row["delta_ns"] >= _MIN_SHARE * rows[0]["delta_ns"]
    )


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


def _kernels(comparison: Comparison, scope: str, side: str, role: str | None) -> tuple[str, ...]:
    if role is None:
        return ()
    rows = comparison.table(_KERNELS, scope=scope, side=side, role=role, limit=_MAX_KERNELS)
    return tuple(row["name"] for row in rows)
