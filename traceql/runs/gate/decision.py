"""Decides about the criteria of a gate."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import comb
from statistics import NormalDist

from traceql.errors import TraceqlError
from traceql.runs.compare import Comparison
from traceql.runs.compare.setup import Effect, is_accepted
from traceql.runs.compare.sides import Run
from traceql.runs.compare.verdict import CONFIDENCE, LEAST_RUNS, NOISE, holm, runs_for
from traceql.runs.gate.comparability import Compared, what_is_compared
from traceql.runs.gate.criterion import ALL_PHASES, Criterion, Metric
from traceql.runs.gate.outcome import Cause, Gate, Numbers, Outcome, Side, Verdict

_MOST = 3
_LEAST_SHARE = 0.01  # of the largest
_MOST_KERNELS = 2  # of each side
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


def causes_of(comparison: Comparison, criterion: Criterion) -> tuple[Cause, ...]:
    """The parts of the step that got longest, of those that the metric of a criterion is about."""
    scope = criterion.scope or ALL_PHASES
    rows = [
        row
        for row in comparison.table(_WATERFALL, scope=scope)
        if _is_about(criterion.metric, row["part"], row["role"], row["cause"])
    ]
    return tuple(
        Cause(
            row["part"],
            row["role"],
            row["cause"],
            row["delta_ns"],
            _kernels(comparison, scope, "base", row["role"]),
            _kernels(comparison, scope, "new", row["role"]),
        )
        for row in rows[:_MOST]
        if row["delta_ns"] >= _LEAST_SHARE * rows[0]["delta_ns"]
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
    rows = comparison.table(_KERNELS, scope=scope, side=side, role=role, limit=_MOST_KERNELS)
    return tuple(row["name"] for row in rows)


_ERROR = 1 - CONFIDENCE
_MOST_RUNS = 50  # that runs_for asks for
_HASH = "trace.sha256"
_TOLD_BY = ("stratum", "metric", "window_part")  # tables by which recordings are told apart


def gate(
    base: Sequence[Run],
    new: Sequence[Run],
    criteria: Sequence[Criterion],
    *,
    accept: Collection[str] = (),
) -> Gate:
    """What the runs of two sides say about some criteria.

    Args:
        accept: names of differences of the set-up that forbid nothing, as in Comparison.

    Raises:
        TraceqlError: there is no criterion, a side has no run, or a recording is named twice.
    """
    if not criteria:
        raise TraceqlError('there is no criterion; add --fail-on "decode.step > 2%"')
    require_different((*base, *new))
    with Comparison(base, new, accept=accept) as comparison:
        compared = what_is_compared(comparison, criteria)
        workload = _workload(comparison, accept)
        first = [_measured(one, compared, workload) for one in criteria]
        outcomes = _decided(first, compared)
        told = tuple(
            replace(one, causes=causes_of(comparison, one.criterion))
            if one.verdict is Verdict.REGRESSION
            else one
            for one in outcomes
        )
        return Gate(
            told,
            tuple(_notes(outcomes, len(base), len(new))),
            comparison.differences,
            Side(tuple(run.name for run in base), compared.share("base", "all")),
            Side(tuple(run.name for run in new), compared.share("new", "all")),
        )


def require_different(runs: Sequence[Run]) -> None:
    """Makes sure that no recording counts twice: it would look like a repeat without noise.

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


def _is_same(one: Run, other: Run) -> bool:
    hashes = [_hash(run) for run in (one, other)]
    if hashes[0] and hashes[0] == hashes[1]:
        return True
    return all(one.profile[name].equals(other.profile[name]) for name in _TOLD_BY)


def _hash(run: Run) -> str | None:
    facts = run.profile["fact"].to_pylist()
    return next((fact["value"] for fact in facts if fact["name"] == _HASH), None)


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
    return f"other workload ({', '.join(names)}); --accept workload compares it all the same"


def _measured(criterion: Criterion, compared: Compared, workload: str) -> Outcome:
    """The numbers of a criterion, or why there are none: no verdict yet."""
    numbers = compared.numbers(criterion)
    reason = compared.obstacle(criterion)
    if not reason and not criterion.metric.has_scope:
        reason = workload
    if reason or numbers is None:
        return Outcome(criterion, Verdict.NOT_COMPARABLE, reason, numbers)
    return Outcome(criterion, Verdict.INCONCLUSIVE, "", numbers)


def _decided(first: Sequence[Outcome], compared: Compared) -> list[Outcome]:
    p_values = {
        str(one.criterion): one.numbers.p
        for one in first
        if one.numbers and one.verdict is not Verdict.NOT_COMPARABLE
    }
    held = holm(p_values)
    tests = sum(p is not None for p in p_values.values())
    return [
        one
        if one.verdict is Verdict.NOT_COMPARABLE or one.numbers is None
        else _outcome(
            one.criterion,
            one.numbers,
            compared.step_ns(one.criterion.scope),
            held=held[str(one.criterion)],
            tests=tests,
        )
        for one in first
    ]


def _outcome(
    criterion: Criterion, numbers: Numbers, step_ns: float, *, held: bool, tests: int
) -> Outcome:
    runs = (len(numbers.base_values), len(numbers.new_values))
    if numbers.low_pct is None or numbers.high_pct is None:
        reason = f"{_runs(*runs)}; an interval needs {LEAST_RUNS} on each side, better 5"
        return Outcome(criterion, Verdict.INCONCLUSIVE, reason, numbers, runs_needed=LEAST_RUNS)
    worse, low, high = numbers.change_pct, numbers.low_pct, numbers.high_pct
    if criterion.metric.more_is_better:
        worse, low, high = -worse, -high, -low
    improved = high < 0
    # What grew from nothing grew beyond any limit, unless it is no part of the step to speak of.
    limit = criterion.limit_pct
    if numbers.percent_of != "itself":
        limit = min(limit, 100 * NOISE)
    if high <= limit:
        return Outcome(criterion, Verdict.NO_REGRESSION, "", numbers, improved=improved)
    if worse > limit and low > 0 and held:
        return Outcome(criterion, Verdict.REGRESSION, "", numbers)
    if worse > limit:
        needed = _runs_to_reject(numbers, worse, step_ns, tests)
        why = "it may be chance"
        if low > 0:
            why = f"among {tests} criteria at once, it may be chance"
    else:
        needed = _runs_to_pass(numbers, limit - worse, step_ns)
        why = f"it may be more than {limit:g}%"
    enough = (
        f"{needed} runs on each side would do"
        if needed
        else (f"more than {_MOST_RUNS} runs on each side are needed")
    )
    return Outcome(criterion, Verdict.INCONCLUSIVE, f"{why}; {enough}", numbers, runs_needed=needed)


def _runs(base: int, new: int) -> str:
    if base == new:
        return f"{base} run{'' if base == 1 else 's'} a side"
    return f"{base} and {new} runs"


def _runs_to_reject(numbers: Numbers, worse: float, step_ns: float, tests: int) -> int | None:
    """The number of runs with which the change would be beyond chance among so many tests."""
    wider = _quantile(_ERROR / tests) / _quantile(_ERROR)
    needed = _more_runs(numbers, worse / wider, step_ns)
    return needed and max(needed, least_runs(tests))


def _runs_to_pass(numbers: Numbers, room: float, step_ns: float) -> int | None:
    """The number of runs with which the interval would end below the limit."""
    return _more_runs(numbers, room, step_ns)


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
        f"smallest p is {smallest:.2g}, and Holm's correction asks for {_ERROR / tests:.2g}. It "
        f"takes {least_runs(tests)} runs on each side, or fewer criteria."
    ]


def smallest_p(base: int, new: int) -> float:
    """The smallest p-value that so many runs can have."""
    return 2 / comb(base + new, new)


def least_runs(tests: int) -> int:
    """The number of runs on each side from which on so many tests at once can find something."""
    runs = LEAST_RUNS
    while smallest_p(runs, runs) > _ERROR / tests:
        runs += 1
    return runs
