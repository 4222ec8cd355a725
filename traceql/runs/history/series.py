"""The series of a history: their metrics and values, and their changes in words."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import isfinite
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import duckdb
import pyarrow as pa

from traceql.errors import QueryInvalid
from traceql.runs import compare
from traceql.runs.history.lookback import (
    LEAST_BEFORE,
    LEAST_DEVIATION,
    LEAST_POINTS,
    Mark,
    ScoredPoint,
    score_points,
)
from traceql.runs.history.recordings import By, Recorded, Setup, format_time
from traceql.util.arrow_duckdb import create_table
from traceql.util.text import format_count, source_text, suggestion
from traceql.util.units import TIME

STEP = "step"
_WITHOUT_WORK = "idle"  # a phase; its steps are selected only by name


def select_series(
    selected: Sequence[str], phases: Sequence[str], metrics: Collection[str]
) -> list[tuple[str, str]]:
    """Scope and metric of the selected series, [PHASE.]METRIC, that the runs have.

    The scope is all without a phase. By default, the steps of each phase.
    """
    if not selected:
        return [(phase, STEP) for phase in phases if phase != _WITHOUT_WORK]
    found: dict[tuple[str, str], None] = {}
    for text in selected:
        scope, _, metric = text.partition(".")
        if text in metrics:
            found[ALL, text] = None
        elif scope in (*phases, ALL) and metric in metrics:
            found[scope, metric] = None
    return list(found)


def require_known(
    selected: Iterable[str], phases: Collection[str], metrics: Collection[str]
) -> None:
    """Raises QueryInvalid for metrics that no run has, with the closest names."""
    scoped = [f"{scope}.{metric}" for scope in (*sorted(phases), ALL) for metric in sorted(metrics)]
    for text in selected:
        if text not in metrics and text not in scoped:
            names = scoped if "." in text else sorted(metrics)
            hint = suggestion(text, names) or f"there are {', '.join(sorted(metrics))}"
            raise QueryInvalid(f"no run has the metric '{text}'; {hint}")


ALL = "all"  # the scope of all phases
_OF_COMPARISON = Path(compare.__file__).parent / "tables"
_OWN = Path(__file__).parent / "tables"
_PROFILES = ("stratum", "metric")
_LEAST_SHARED = 0.5  # share of the time of each run in strata that all runs of a series have
_SIZES = """
    SELECT run, stratum, gpu_ns
    FROM every_stratum
    WHERE grain = (SELECT grain FROM grain) AND ($scope = 'all' OR phase = $scope)
    ORDER BY run, stratum
"""
_PHASES = """
    SELECT phase
    FROM every_stratum
    WHERE grain = (SELECT grain FROM grain)
    GROUP BY phase
    ORDER BY SUM(gpu_ns / lanes ORDER BY run, stratum) DESC, phase
"""
_METRICS = """
    SELECT DISTINCT metric, kind FROM every_metric
    WHERE kind NOT IN ('wait', 'unmatched')
    ORDER BY metric
"""
_VALUES = "SELECT run, ns FROM run_value WHERE scope = $scope AND metric = $metric"
_LARGEST = """
    SELECT stratum FROM stratum
    INNER JOIN profile_stratum USING (stratum)
    WHERE stratum.is_compared AND profile_stratum.grain = (SELECT grain FROM grain)
    GROUP BY stratum ORDER BY SUM(gpu_ns) DESC, stratum LIMIT 1
"""


class Mix(NamedTuple):
    """Runs that share most of their strata of a scope.

    Attributes:
        runs: their numbers in the set-up.
        largest: the stratum that takes most of their time.
        left_out_pct: for each of them, the share of its time that is not compared.
    """

    runs: list[int]
    largest: str
    left_out_pct: dict[int, float]


class Values(AbstractContextManager["Values"]):
    """The values of the runs of one set-up.

    Attributes:
        phases: of all steps, the one that takes most of the time first.
        metrics: those that any run has, each with its kind: whole, part or role.
    """

    def __init__(self, runs: Sequence[Recorded]) -> None:
        self._con = duckdb.connect(config={"threads": 2})
        for name in _PROFILES:
            tables = [
                rows.append_column("side", pa.repeat("base", len(rows))).append_column(
                    "run", pa.repeat(pa.scalar(number, pa.int64()), len(rows))
                )
                for number, one in enumerate(runs)
                for rows in [one.run.profile[name]]
            ]
            create_table(self._con, f"every_{name}", pa.concat_tables(tables))
            self._con.execute(f"CREATE VIEW profile_{name} AS FROM every_{name}")
        self._make(_OF_COMPARISON, "grain")
        self.phases: list[str] = [phase for (phase,) in self._con.execute(_PHASES).fetchall()]
        self.metrics: dict[str, str] = dict(self._con.execute(_METRICS).fetchall())

    def mixes(self, scope: str) -> Iterator[Mix]:
        """The groups of runs for a scope, the earliest run first; read each before the next."""
        times: dict[int, dict[str, int]] = {}
        for run, stratum, ns in self._con.execute(_SIZES, {"scope": scope}).fetchall():
            times.setdefault(run, {})[stratum] = ns
        for runs in _sharing(times):
            self._choose(scope, runs)
            left_out = self._con.execute(source_text(_OWN / "left_out.sql")).fetchall()
            ((largest,),) = self._con.execute(_LARGEST).fetchall()
            yield Mix(runs, largest, {run: share or 0.0 for run, share in left_out})

    def of(self, mix: Mix, scope: str, metric: str) -> dict[int, float]:
        """Time of the metric in a step of the scope for each run of the mix, ns; 0 without any."""
        found = self._con.execute(_VALUES, {"scope": scope, "metric": metric}).fetchall()
        return dict.fromkeys(mix.runs, 0.0) | dict(found)

    def __exit__(self, *error: object) -> None:
        self._con.close()

    def _choose(self, scope: str, runs: Sequence[int]) -> None:
        phases = self.phases if scope == ALL else [scope]
        create_table(self._con, "member", pa.table({"run": pa.array(runs, pa.int64())}))
        create_table(self._con, "scope_phase", pa.table({"phase": pa.array(phases, pa.string())}))
        for name in _PROFILES:
            chosen = f"SELECT * FROM every_{name} WHERE run IN (FROM member)"
            self._con.execute(f"CREATE OR REPLACE VIEW profile_{name} AS {chosen}")
        self._make(_OWN, "stratum")
        for name in ("weight", "run_stratum", "run_value"):
            self._make(_OF_COMPARISON, name)

    def _make(self, folder: Path, name: str) -> None:
        text = source_text(folder / f"{name}.sql")
        self._con.execute(f"CREATE OR REPLACE TABLE {name} AS {text}")


def _sharing(times: dict[int, dict[str, int]]) -> list[list[int]]:
    """Groups of runs: in each, the strata of all have at least half of the time of every run."""
    groups: list[tuple[list[int], set[str]]] = []
    for run, own in times.items():
        for place, (runs, shared) in enumerate(groups):
            both = shared & own.keys()
            if all(
                sum(times[each][one] for one in both) >= _LEAST_SHARED * sum(times[each].values())
                for each in (*runs, run)
            ):
                groups[place] = ([*runs, run], both)
                break
        else:
            groups.append(([run], set(own)))
    return [runs for runs, _ in groups]


class Point(NamedTuple):
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


class Series(NamedTuple):
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
    setups: Sequence[Setup], *, by: By, selected: Sequence[str], threshold: float, window: int
) -> list[Series]:
    """The series of all set-ups, those with most runs first; QueryInvalid for an unknown metric."""
    found: list[Series] = []
    phases, metrics = set[str](), set[str]()
    score = partial(score_points, threshold=threshold, window=window)
    for setup in sorted(setups, key=lambda one: -len(one.runs)):
        with Values([*setup.runs]) as values:
            phases |= set(values.phases)
            metrics |= values.metrics.keys()
            wanted = select_series(selected, values.phases, values.metrics)
            for scope in dict.fromkeys(scope for scope, _ in wanted):
                names = [metric for each, metric in wanted if each == scope]
                found += _of_scope(setup, values, scope, names, by, score)
    require_known(selected, phases, metrics)
    return found


def _of_scope(
    setup: Setup,
    values: Values,
    scope: str,
    metrics: Collection[str],
    by: By,
    score: Callable[[list[float]], list[ScoredPoint]],
) -> Iterator[Series]:
    known = set[str]()
    for number, mix in enumerate(values.mixes(scope), start=1):
        apart, largest = "", mix.largest.partition(", ")[2]
        if number > 1:
            apart = largest or "other steps"
            apart = f"{apart}, mix {number}" if apart in known else apart
        known.add(apart or largest)
        groups: dict[str, list[int]] = {}
        for run in mix.runs:
            groups.setdefault(_key(setup.runs[run], run, by), []).append(run)
        for metric in metrics:
            own = values.of(mix, scope, metric)
            scored = score([median(own[run] for run in group) for group in groups.values()])
            points = [
                Point(
                    tuple(setup.runs[run] for run in group),
                    tuple(own[run] for run in group),
                    fmean(mix.left_out_pct.get(run, 0.0) for run in group),
                    one,
                )
                for group, one in zip(groups.values(), scored, strict=True)
            ]
            kind = values.metrics[metric]
            yield Series(setup.name, scope, metric, kind, apart, tuple(points))


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


def changes(series: Series) -> list[Point]:
    """The points at which a change begins, the latest first."""
    return [point for point in series.points[::-1] if point.scored.mark is Mark.CHANGE]


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


def format_series(series: Series, by: By) -> Iterator[str]:
    """Such as `slower by 6.1% since 2026-11-03 09:12 (commit abc1234), z = 8.2`, in parts."""
    points, last = series.points, series.points[-1]
    if few := too_few(series):
        yield few
    for place, point in enumerate([] if few else changes(series)):
        first = point.runs[0]
        commit = first.commit if by is By.TIME else first.label(by)
        yield (
            f"{'before that, ' if place else ''}{format_change(series, point.shift)} since "
            f"{format_time(first.time[0])}{f' (commit {commit})' if commit else ''}, "
            f"z = {_z(point)}"
        )
    if not few and not changes(series):
        yield f"no change in {_counted(series)}, {_typical(series)}"
    if last.scored.mark is Mark.UNCONFIRMED:
        yield (
            f"the last one is {format_change(series, last.change)} (z = {_z(last)}); "
            "one more run decides whether that persists"
        )
    outliers = [point.runs[0].label(by) for point in points if point.scored.mark is Mark.OUTLIER]
    if outliers:
        yield f"{'outlier' if len(outliers) == 1 else 'outliers'} {', '.join(outliers)}"
    left_out = median(point.left_out_pct for point in points)
    if left_out >= _LEAST_LEFT_OUT_PCT:
        yield f"{left_out:.0f}% of the time is excluded: not all of these runs have such steps"


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
