"""The result of a comparison in sentences, and the kernels that differ by role."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from traceql.runs.compare.verdict import Verdict
from traceql.util.units import TIME

if TYPE_CHECKING:
    from traceql.runs.compare.comparison import Comparison

# Smaller causes are not named in a sentence: shares of the largest cause, and of the step.
_LEAST_SHARE, _LEAST_SHARE_OF_STEP = 0.05, 0.001
_NET = 0.75  # of the cost of a rank; less if the cost moved from other ranks
_LEAST_SHARE_OF_ROOT = 0.01  # of the step; smaller costs of a rank are not named
_MOST_NAMED = 3
MARKS = {
    Verdict.SLOWER: "✗",
    Verdict.FASTER: "✓",
    Verdict.NO_CHANGE: "✓",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NO_VERDICT: "?",
    Verdict.NOT_COMPARABLE: "-",
}
_CHANGES = """
    SELECT * FROM change WHERE scope = $scope AND metric IN ('step', 'busy') ORDER BY metric DESC
"""
_CAUSES = (
    "SELECT * FROM cause WHERE scope = $scope AND verdict IN ('slower', 'faster', 'new', 'gone')"
)
_ROOTS = "SELECT * FROM change WHERE scope = $scope AND kind = 'root' ORDER BY ABS(new - base) DESC"
# Phases that take time and have no stratum in common.
_LACKING = """
    SELECT
        phase,
        COALESCE(SUM(base_total_ns), 0) AS base_ns,
        COALESCE(SUM(new_total_ns), 0) AS new_ns
    FROM stratum
    GROUP BY phase
    HAVING
        NOT BOOL_OR(is_compared)
        AND (
            base_ns > 0.01 * (SELECT SUM(base_total_ns) FROM stratum)
            OR new_ns > 0.01 * (SELECT SUM(new_total_ns) FROM stratum)
        )
    ORDER BY base_ns + new_ns DESC, phase
"""
_SHARES = """
    SELECT
        100.0 * SUM(base_total_ns) FILTER (is_compared) / SUM(base_total_ns) AS base,
        100.0 * SUM(new_total_ns) FILTER (is_compared) / SUM(new_total_ns) AS new
    FROM stratum
    WHERE phase = $scope
"""
LEAST_COMPARED_PCT = 50.0  # of the time of a side's steps; less does not stand for the whole
_LAYERS = "SELECT * FROM layer_change WHERE scope = $scope"


class Sentence(NamedTuple):
    verdict: Verdict
    text: str


def answers(comparison: "Comparison") -> Iterator[Sentence]:
    """A sentence for each compared phase, the one that takes most time first."""
    if comparison.same_recordings:
        yield Sentence(Verdict.NO_CHANGE, "Nothing differs: both sides are the same recordings.")
        return
    for scope in comparison.scopes:
        rows = {row["metric"]: row for row in comparison.table(_CHANGES, scope=scope)}
        yield Sentence(
            Verdict(rows["step"]["verdict"]),
            f"{_step(scope, rows['step'])}{comparison.terminology(_work(rows))}"
            f"{_named(comparison, scope)}{_share(comparison, scope)}",
        )
    for row in comparison.table(_LACKING):
        why = "no size is on both sides, or not in every run"
        if not row["base_ns"] or not row["new_ns"]:
            why = f"only {'base' if row['base_ns'] else 'new'} has them"
        text = f"{row['phase'].capitalize()} steps are not compared: {why}."
        yield Sentence(Verdict.NOT_COMPARABLE, text)


def _share(comparison: "Comparison", scope: str) -> str:
    """A sentence if less than half of the time of a phase is compared."""
    (row,) = comparison.table(_SHARES, scope=scope)
    steps = "steps" if scope == "unknown" else f"{scope} steps"
    little = [
        f"{share:.0f}% of the time of {side}'s {steps}"
        for side, share in row.items()
        if share is not None and share < LEAST_COMPARED_PCT
    ]
    return f" Only {' and '.join(little)} is compared." if little else ""


def _step(scope: str, row: dict[str, Any]) -> str:
    name = "The steps" if scope == "unknown" else f"{scope.capitalize()} steps"
    medians = f"{format_time(row['base'])} to {format_time(row['new'])}"
    runs = max(len(row["base_values"]), len(row["new_values"]))
    times = f"{medians}{', run by run' if runs > 1 else ','} {format_percent(row['change_pct'])}"
    match Verdict(row["verdict"]):
        case Verdict.SLOWER | Verdict.FASTER:
            return f"{name} are {row['verdict']}: {times} ({format_interval(row)})."
        case Verdict.NO_CHANGE:
            return f"{name} take as long as before: {times} ({format_interval(row)})."
        case Verdict.INCONCLUSIVE:
            unclear = f"It is unclear whether {name.lower()} changed"
            return f"{unclear}: {times} ({format_interval(row)}; {row['reason']})."
        case Verdict.NOT_COMPARABLE:
            return f"{name} are not comparable ({row['reason']}): {times}."
        case _:
            return f"{name}: {times}; no verdict ({row['reason']})."


def _work(rows: dict[str, dict[str, Any]]) -> str:
    """The change of the GPU's busy time, if its verdict differs from that of the step."""
    step, busy = rows["step"], rows.get("busy")
    if busy is None or busy["verdict"] == step["verdict"]:
        return ""
    match Verdict(busy["verdict"]):
        case Verdict.SLOWER | Verdict.FASTER:
            change = f"{format_percent(busy['change_pct'])} ({format_interval(busy)})"
            return f" GPU busy time is {busy['verdict']}: {change}."
        case Verdict.NO_CHANGE:
            return " GPU busy time did not change: the difference is idle time or waiting."
        case _:
            return ""


def _named(comparison: "Comparison", scope: str) -> str:
    """The largest significant causes, and roles that only one side has."""
    causes = comparison.table(_CAUSES, scope=scope)
    largest = max((abs(row["delta_ns"]) for row in causes), default=0)
    least = max(_LEAST_SHARE * largest, _LEAST_SHARE_OF_STEP * _step_ns(comparison, scope))
    listed: dict[str, list[str]] = {"Largest significant changes": [], "New": [], "Gone": []}
    for row in causes:
        if abs(row["delta_ns"]) >= least:
            change = f"{cause_name(row)} {format_time_change(row['delta_ns'])}"
            title = str(row["verdict"]).capitalize()
            listed.get(title, listed["Largest significant changes"]).append(change)
    return "".join(f" {title}: {_listed(some)}." for title, some in listed.items() if some)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_NAMED
    return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def cause_name(row: dict[str, Any]) -> str:
    """A cause, with the kind of its time if that is not computing."""
    if row["kind"] in ("transfer", "communication"):
        return f"{row['cause']} ({row['kind']})"
    return str(row["cause"])


def roots(comparison: "Comparison", scope: str) -> Iterator[str]:
    """The ranks whose lateness changed significantly, and the cost per GPU.

    Only a rank that is the latest in every run of the slower side is named: among equally slow
    hosts, the latest rank changes from start to start.
    """
    rows, each = comparison.table(_ROOTS, scope=scope), comparison.terminology("each GPU")
    least = _LEAST_SHARE_OF_ROOT * _step_ns(comparison, scope)
    for row in rows:
        rank, cause = row["metric"].removeprefix("rank ").split(": ")
        cost = abs(row["new"] - row["base"])
        if row["verdict"] not in (Verdict.SLOWER, Verdict.FASTER) or cost < least:
            continue
        same = [one for one in rows if one["metric"].endswith(f": {cause}")]
        sums = {  # of all ranks, for each run
            side: [sum(run) for run in zip(*(one[side] for one in same), strict=True)]
            for side in ("base_values", "new_values")
        }
        side = "new_values" if row["verdict"] == Verdict.SLOWER else "base_values"
        dominates = all(2 * own > whole for own, whole in zip(row[side], sums[side], strict=True))
        net = abs(median(sums["new_values"]) - median(sums["base_values"]))
        if len(same) < 2 or not dominates or net < _NET * cost:
            continue
        more = "more" if row["verdict"] == Verdict.SLOWER else "less"
        of_step = " of the step" if row["percent_of"] == "step" else ""
        yield (
            f"Rank {rank} ({cause}): {each} loses {format_time(cost)} {more} "
            f"per step, idle or waiting for it: {format_time(row['base'])} to "
            f"{format_time(row['new'])} ({format_interval(row)}{of_step})."
        )


def _step_ns(comparison: "Comparison", scope: str) -> float:
    return float(comparison.table(_CHANGES, scope=scope)[0]["base"])


def layers(comparison: "Comparison", scope: str) -> str:
    """Whether all layers changed alike, or which ones did not."""
    rows = comparison.table(_LAYERS, scope=scope)
    whole = next((row for row in rows if row["role"] == "all"), None)
    if whole is None:
        return ""
    apart = [row for row in rows if row["apart"]]
    others = f"{format_percent(whole['low_pct'])} to {format_percent(whole['high_pct'])}"
    if not apart:
        return f"All {whole['layers']} layers changed alike ({others})."
    listed = [
        f"layer {one['layer']} {row['role'] if row['role'] != 'all' else ''}".rstrip()
        + f" {format_percent(one['change_pct'])} ({format_time(one['base_ns'])} to "
        + f"{format_time(one['new_ns'])})"
        for row in sorted(apart, key=lambda row: row["role"] == "all")
        for one in row["apart"]
    ]
    return f"Not all layers changed alike: {_listed(listed)}; the others {others}."


def format_interval(row: dict[str, Any]) -> str:
    return f"95% interval {format_percent(row['low_pct'])} to {format_percent(row['high_pct'])}"


def format_percent(percent: float) -> str:
    decimals = 0 if abs(percent) >= 99.5 else 1
    text = f"{percent:+,.{decimals}f}%"
    return text.replace("-", "\u2212") if float(f"{percent:.{decimals}f}") else f"{0:.{decimals}f}%"


def format_time(ns: float) -> str:
    divisor = TIME.divisor(ns)
    value = ns / divisor
    decimals = 0 if divisor == 1 else 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    return f"{value:,.{decimals}f} {TIME.symbol(divisor)}".replace("-", "\u2212")


def format_time_change(ns: float) -> str:
    return f"{'+' if ns > 0 else ''}{format_time(ns)}"


def format_values(values: Sequence[str]) -> str:
    return ", ".join(values) if values else "not set"


# Kernels of one side, by role.
_USES = """
    WITH own AS (
        SELECT scope, role, side, {'name': name, 'kernels': kernels, 'ns': ns} AS used
        FROM kernel_use
        QUALIFY COUNT(*) OVER (PARTITION BY scope, role, name) = 1
    )
    SELECT
        scope,
        role,
        LIST(used ORDER BY used.ns DESC, used.name) FILTER (side = 'base') AS gone,
        LIST(used ORDER BY used.ns DESC, used.name) FILTER (side = 'new') AS came
    FROM own
    GROUP BY scope, role
    ORDER BY scope, role
"""


class KernelUse(NamedTuple):
    """A kernel of a role: launches and their duration in a step."""

    name: str
    kernels: float
    ns: float


class KernelChange(NamedTuple):
    """The kernels of a role that only base or only new runs, the longest first."""

    gone: list[KernelUse]
    came: list[KernelUse]


def kernel_changes(comparison: "Comparison") -> dict[tuple[str, str], KernelChange]:
    """The differing kernels by scope and role; roles with the same kernels are left out."""
    rows = (row.values() for row in comparison.table(_USES))
    return {
        (scope, role): KernelChange(*([KernelUse(**one) for one in side or ()] for side in sides))
        for scope, role, *sides in rows
    }
