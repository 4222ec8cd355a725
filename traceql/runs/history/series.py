"""The series of a history, and their changes in words."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean, median

from traceql.runs.history.lookback import (
    LEAST_BEFORE,
    LEAST_DEVIATION,
    LEAST_POINTS,
    Mark,
    ScoredPoint,
    score_points,
)
from traceql.runs.history.recordings import By, Recorded, Setup, format_time
from traceql.runs.history.values import ALL, STEP, Mix, Values, require_known, select_series
from traceql.util.text import format_count
from traceql.util.units import TIME


@dataclass(frozen=True)
class Point:
    """Runs of one commit or of one baseline, or a single run.

    Attributes:
        runs: in the order of their times.
        values: one for each run, ns.
        left_out_pct: share of the time of its steps that is not compared.
    """

    runs: tuple[Recorded, ...]
    values: tuple[float, ...]
    left_out_pct: float
    scored: ScoredPoint

    @property
    def ns(self) -> float:
        return median(self.values)

    @property
    def shift(self) -> float | None:
        """At a change: new level / expected - 1."""
        if self.scored.mark is not Mark.CHANGE or not self.scored.expected:
            return None
        return self.scored.level / self.scored.expected - 1

    @property
    def change(self) -> float | None:
        """Value / expected - 1."""
        return self.ns / self.scored.expected - 1 if self.scored.expected else None


@dataclass(frozen=True)
class Series:
    """Points that may be compared.

    Attributes:
        setup: name of the set-up.
        scope: a phase, or all.
        kind: of the metric: whole, part or role.
        apart: distinguishes it from another series of that set-up, scope and metric; mostly empty.
    """

    setup: str
    scope: str
    metric: str
    kind: str
    apart: str
    points: tuple[Point, ...]

    @property
    def what(self) -> str:
        """`decode step`, or `idle.host of a decode step`."""
        step = STEP if self.scope == ALL else f"{self.scope} {STEP}"
        if self.metric == STEP:
            return step
        return f"{self.metric} of a {step}" if self.scope != ALL else f"{self.metric} of a step"

    @property
    def title(self) -> str:
        """`decode step of qwen3-8b on H200, TP 2`."""
        apart = f" ({self.apart})" if self.apart else ""
        return f"{self.what} of {self.setup}{apart}"


def all_series(
    setups: Sequence[Setup],
    *,
    by: By,
    selected: Sequence[str],
    threshold: float,
    window: int,
) -> list[Series]:
    """The series of all set-ups, those with most runs first.

    Raises:
        QueryInvalid: no run has a selected metric.
    """
    found: list[Series] = []
    phases, metrics = set[str](), set[str]()
    for setup in sorted(setups, key=lambda one: -len(one.runs)):
        with Values([*setup.runs]) as values:
            phases |= set(values.phases)
            metrics |= values.metrics.keys()
            wanted = select_series(selected, values.phases, values.metrics)
            for scope in dict.fromkeys(scope for scope, _ in wanted):
                names = [metric for each, metric in wanted if each == scope]
                found += _of_scope(setup, values, scope, names, by, threshold, window)
    require_known(selected, phases, metrics)
    return found


def _of_scope(
    setup: Setup,
    values: Values,
    scope: str,
    metrics: Collection[str],
    by: By,
    threshold: float,
    window: int,
) -> Iterator[Series]:
    known = set[str]()
    kinds = values.metrics
    for number, mix in enumerate(values.mixes(scope), start=1):
        apart = ""
        if number > 1:
            largest = mix.largest.partition(", ")[2] or "other steps"
            apart = largest if largest not in known else f"{largest}, mix {number}"
        known.add(apart or mix.largest.partition(", ")[2])
        for metric in metrics:
            own = values.of(mix, scope, metric)
            points = _points(setup, mix, own, by, threshold, window)
            yield Series(setup.name, scope, metric, kinds[metric], apart, tuple(points))


def _points(
    setup: Setup, mix: Mix, values: dict[int, float], by: By, threshold: float, window: int
) -> Iterator[Point]:
    groups: dict[str, list[int]] = {}
    for run in mix.runs:
        groups.setdefault(_key(setup.runs[run], run, by), []).append(run)
    medians = [median(values[run] for run in group) for group in groups.values()]
    scored = score_points(medians, threshold=threshold, window=window)
    for group, own in zip(groups.values(), scored, strict=True):
        yield Point(
            tuple(setup.runs[run] for run in group),
            tuple(values[run] for run in group),
            fmean(mix.left_out_pct.get(run, 0.0) for run in group),
            own,
        )


def _key(recorded: Recorded, run: int, by: By) -> str:
    """The same for repeats of one point."""
    if by is By.COMMIT:
        return recorded.commit
    if by is By.VLLM_COMMIT:
        return recorded.vllm_commit
    is_baseline = recorded.run.database is None
    return f"baseline {Path(recorded.place)}" if is_baseline else f"run {run}"


_LARGE_PCT = 10  # from here on, decimals do not matter
_LEAST_LEFT_OUT_PCT = 1


def format_series(series: Series, by: By) -> str:
    """Such as `slower by 6.1% since 2026-11-03 09:12 (commit abc1234), z = 8.2`."""
    return "; ".join(_parts(series, by))


def changes(series: Series) -> list[Point]:
    """The points at which a change begins, the latest first."""
    found = [point for point in series.points if point.scored.mark is Mark.CHANGE]
    return found[::-1]


def format_change(series: Series, relative: float | None) -> str:
    """`slower by 6.1%`; of idle time and the like, `more by 6.1%`."""
    more, less = ("more", "less") if series.kind == "part" else ("slower", "faster")
    if relative is None:
        return f"no longer 0, but {more}"
    return f"{more if relative > 0 else less} by {percent(abs(relative))}"


def too_few(series: Series) -> str:
    """Why no change can be detected; empty if one can."""
    if len(series.points) < LEAST_POINTS:
        return f"too few runs to detect a change ({_counted(series)}; {LEAST_POINTS} are needed)"
    if all(point.scored.mark is Mark.TOO_FEW for point in series.points):
        return (
            f"the runs vary too much to detect a change ({_counted(series)}; without outliers, "
            f"fewer than {LEAST_BEFORE} are left to compare with)"
        )
    return ""


def percent(relative: float) -> str:
    return f"{100 * relative:.{0 if abs(100 * relative) >= _LARGE_PCT else 1}f}%"


def _parts(series: Series, by: By) -> Iterator[str]:
    changed, last = changes(series), series.points[-1]
    if few := too_few(series):
        yield few
    elif changed:
        yield _change(series, changed[0], by)
        yield from (f"before that, {_change(series, one, by)}" for one in changed[1:])
    else:
        yield f"no change in {_counted(series)}, {_typical(series)}"
    if last.scored.mark is Mark.UNCONFIRMED:
        yield (
            f"the last one is {format_change(series, last.change)} (z = {_z(last)}); "
            "one more run decides whether that persists"
        )
    outliers = [point for point in series.points if point.scored.mark is Mark.OUTLIER]
    if outliers:
        names = ", ".join(point.runs[0].label(by) for point in outliers)
        yield f"{'outlier' if len(outliers) == 1 else 'outliers'} {names}"
    left_out = median(point.left_out_pct for point in series.points)
    if left_out >= _LEAST_LEFT_OUT_PCT:
        yield f"{left_out:.0f}% of the time is excluded: not all of these runs have such steps"


def _change(series: Series, point: Point, by: By) -> str:
    first = point.runs[0]
    commit = first.commit if by is By.TIME else first.label(by)
    return (
        f"{format_change(series, point.shift)} since {format_time(first.time[0])}"
        f"{f' (commit {commit})' if commit else ''}, z = {_z(point)}"
    )


def _z(point: Point) -> str:
    z = point.scored.z
    return f"{z:.1f}" if z is not None and isfinite(z) else "infinite"


def _counted(series: Series) -> str:
    points, runs = len(series.points), sum(len(point.runs) for point in series.points)
    if points == runs:
        return format_count(runs, "run")
    return f"{format_count(points, 'point')} of {runs} runs"


def _typical(series: Series) -> str:
    typical = median(point.ns for point in series.points)
    divisor = TIME.divisor(typical)
    text = f"{typical / divisor:.3g} {TIME.symbol(divisor)}"
    deviation = series.points[-1].scored.deviation
    if deviation is None or not typical:
        return text
    least = " or less" if deviation <= LEAST_DEVIATION * typical else ""
    return f"{text} with a deviation of {percent(deviation / typical)}{least} from run to run"
