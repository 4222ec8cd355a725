"""What a comparison found in sentences, the answer first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from traceql.runs.compare.verdict import Verdict

if TYPE_CHECKING:
    from traceql.runs.compare.comparison import Comparison

# Smaller causes are not named in a sentence: shares of the largest cause, and of the step.
_LEAST_SHARE, _LEAST_SHARE_OF_STEP = 0.05, 0.001
_NET = 0.75  # of what a rank costs more; less if it only took the blame over from other ranks
_LEAST_SHARE_OF_ROOT = 0.01  # of the step; a smaller cost of a rank is not told
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
    WITH phase AS (
        SELECT
            phase,
            BOOL_OR(is_compared) AS is_compared,
            COALESCE(SUM(base_total_ns), 0) AS base_ns,
            COALESCE(SUM(new_total_ns), 0) AS new_ns
        FROM stratum
        GROUP BY phase
    )
    SELECT *
    FROM phase
    WHERE
        NOT is_compared
        AND (
            base_ns > 0.01 * (SELECT SUM(base_ns) FROM phase)
            OR new_ns > 0.01 * (SELECT SUM(new_ns) FROM phase)
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


@dataclass(frozen=True)
class Sentence:
    """One answer.

    Attributes:
        verdict: what it is about.
        text: the sentence.
    """

    verdict: Verdict
    text: str


def answers(comparison: "Comparison") -> Iterator[Sentence]:
    """One sentence for each phase that is compared, the one that takes most time first."""
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
        yield Sentence(Verdict.NOT_COMPARABLE, f"{row['phase'].capitalize()} {_lacking(row)}.")


def _share(comparison: "Comparison", scope: str) -> str:
    """Says so if what is compared of a phase hardly stands for the phase."""
    (row,) = comparison.table(_SHARES, scope=scope)
    little = [
        f"{row[side]:.0f}% of the time of {side}'s {_steps(scope)}"
        for side in ("base", "new")
        if row[side] is not None and row[side] < LEAST_COMPARED_PCT
    ]
    return f" Only {' and '.join(little)} is compared." if little else ""


def _steps(scope: str) -> str:
    return "steps" if scope == "unknown" else f"{scope} steps"


def _lacking(row: dict[str, Any]) -> str:
    if not row["base_ns"] or not row["new_ns"]:
        return f"steps are not compared: only {'base' if row['base_ns'] else 'new'} has them"
    return "steps are not compared: no size is on both sides, or not in every run"


def _step(scope: str, row: dict[str, Any]) -> str:
    name = "The steps" if scope == "unknown" else f"{scope.capitalize()} steps"
    medians = f"{time(row['base'])} to {time(row['new'])}"
    runs = max(len(row["base_values"]), len(row["new_values"]))
    times = f"{medians}{', run by run' if runs > 1 else ','} {signed(row['change_pct'])}"
    match Verdict(row["verdict"]):
        case Verdict.SLOWER | Verdict.FASTER:
            return f"{name} are {row['verdict']}: {times} ({interval(row)})."
        case Verdict.NO_CHANGE:
            return f"{name} take as long as before: {times} ({interval(row)})."
        case Verdict.INCONCLUSIVE:
            open_ = f"Whether {name.lower()} changed is open"
            return f"{open_}: {times} ({interval(row)}; {row['reason']})."
        case Verdict.NOT_COMPARABLE:
            return f"{name} are not comparable ({row['reason']}): {times}."
        case _:
            return f"{name}: {times}; no verdict ({row['reason']})."


def _work(rows: dict[str, dict[str, Any]]) -> str:
    """What the GPU's own work did, if its verdict is another one than that of the step."""
    step, busy = rows["step"], rows.get("busy")
    if busy is None or busy["verdict"] == step["verdict"]:
        return ""
    match Verdict(busy["verdict"]):
        case Verdict.SLOWER | Verdict.FASTER:
            change = f"{signed(busy['change_pct'])} ({interval(busy)})"
            return f" The work of the GPU is {busy['verdict']}: {change}."
        case Verdict.NO_CHANGE:
            return " The work of the GPU did not change: the difference is idle time or waiting."
        case _:
            return ""


def _named(comparison: "Comparison", scope: str) -> str:
    """The largest causes whose change is real, and roles that only one side has."""
    causes = comparison.table(_CAUSES, scope=scope)
    if not causes:
        return ""
    least = max(
        _LEAST_SHARE * max(abs(row["delta_ns"]) for row in causes),
        _LEAST_SHARE_OF_STEP * _step_ns(comparison, scope),
    )
    told: dict[str, list[str]] = {"Largest real changes": [], "New": [], "Gone": []}
    for row in causes:
        if abs(row["delta_ns"]) >= least:
            title = {Verdict.NEW: "New", Verdict.GONE: "Gone"}.get(row["verdict"])
            change = f"{cause_name(row)} {signed_time(row['delta_ns'])}"
            told[title or "Largest real changes"].append(change)
    return "".join(f" {title}: {_listed(some)}." for title, some in told.items() if some)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_NAMED
    return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def cause_name(row: dict[str, Any]) -> str:
    """A cause with what kind of time it is, unless that is plain."""
    if row["kind"] in ("transfer", "communication"):
        return f"{row['cause']} ({row['kind']})"
    return str(row["cause"])


def roots(comparison: "Comparison", scope: str) -> Iterator[str]:
    """Which rank's lateness really changed, and what that costs each GPU.

    Only a rank that is to blame in every run of the slower side is named: where hosts are as slow
    as each other, the blame changes from start to start.
    """
    rows, each = comparison.table(_ROOTS, scope=scope), comparison.terminology("each GPU")
    for row in rows:
        rank, cause = row["metric"].removeprefix("rank ").split(": ")
        same = [one for one in rows if one["metric"].endswith(f": {cause}")]
        slower = row["verdict"] == Verdict.SLOWER
        if (not slower and row["verdict"] != Verdict.FASTER) or len(same) < 2:
            continue
        if abs(row["new"] - row["base"]) < _LEAST_SHARE_OF_ROOT * _step_ns(comparison, scope):
            continue
        if not _is_to_blame(row, same, "new_values" if slower else "base_values"):
            continue
        if _net(same) < _NET * abs(row["new"] - row["base"]):
            continue
        more = "more" if slower else "less"
        yield (
            f"Rank {rank} ({cause}): {each} loses {time(abs(row['new'] - row['base']))} {more} "
            f"from step to step, idle or waiting for it: {time(row['base'])} to "
            f"{time(row['new'])} ({_certainty(row)})."
        )


def _net(same: Sequence[dict[str, Any]]) -> float:
    """By how much all ranks together moved: the medians of the runs' sums."""
    base, new = (
        median(sum(values) for values in zip(*(one[side] for one in same), strict=True))
        for side in ("base_values", "new_values")
    )
    return float(abs(new - base))


def _is_to_blame(row: dict[str, Any], same: Sequence[dict[str, Any]], side: str) -> bool:
    """Whether the rank is to blame for most of what this cause costs, in every run of a side."""
    sums = [sum(values) for values in zip(*(one[side] for one in same), strict=True)]
    return all(2 * own > whole for own, whole in zip(row[side], sums, strict=True))


def _certainty(row: dict[str, Any]) -> str:
    return interval(row) + (" of the step" if row["percent_of"] == "step" else "")


def _step_ns(comparison: "Comparison", scope: str) -> float:
    return float(comparison.table(_CHANGES, scope=scope)[0]["base"])


def layers(comparison: "Comparison", scope: str) -> str:
    """Whether all layers moved alike, or which ones did not."""
    rows = comparison.table(_LAYERS, scope=scope)
    whole = next((row for row in rows if row["role"] == "all"), None)
    if whole is None:
        return ""
    apart = [row for row in rows if row["apart"]]
    others = f"{signed(whole['low_pct'])} to {signed(whole['high_pct'])}"
    if not apart:
        return f"All {whole['layers']} layers moved alike ({others})."
    told = [
        f"layer {one['layer']} {row['role'] if row['role'] != 'all' else ''}".rstrip()
        + f" {signed(one['change_pct'])} ({time(one['base_ns'])} to {time(one['new_ns'])})"
        for row in sorted(apart, key=lambda row: row["role"] == "all")
        for one in row["apart"]
    ]
    return f"Not all layers moved alike: {_listed(told)}; the others {others}."


def interval(row: dict[str, Any]) -> str:
    """The interval of a change, in words."""
    return f"95% interval {signed(row['low_pct'])} to {signed(row['high_pct'])}"


def signed(percent: float) -> str:
    """A change in percent, with its sign and as many decimals as matter."""
    decimals = 0 if abs(percent) >= 99.5 else 1
    text = f"{percent:+,.{decimals}f}%"
    return text.replace("-", "\u2212") if float(f"{percent:.{decimals}f}") else f"{0:.{decimals}f}%"


def time(ns: float) -> str:
    """A duration in the unit that suits it."""
    from traceql.util.units import TIME

    divisor = TIME.divisor(ns)
    value = ns / divisor
    decimals = 0 if divisor == 1 else 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    return f"{value:,.{decimals}f} {TIME.symbol(divisor)}".replace("-", "\u2212")


def signed_time(ns: float) -> str:
    """A difference of durations, with its sign."""
    return f"{'+' if ns > 0 else ''}{time(ns)}"


def names(values: Sequence[str]) -> str:
    """Values of a fact, or that it is not set: none is a value of some."""
    return ", ".join(values) if values else "not set"
