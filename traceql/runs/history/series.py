"""The series of a history: points of runs that may be compared, each with its mark."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import fmean, median

from traceql.runs.history.asked import STEP, asked_series, require_known
from traceql.runs.history.lookback import Looked, looked_at
from traceql.runs.history.recorded import Recorded
from traceql.runs.history.setups import Setup
from traceql.runs.history.values import ALL, Mix, Values


class By(StrEnum):
    """What is on the horizontal axis, and which runs are repeats of one point."""

    TIME = "time"
    COMMIT = "commit"
    VLLM_COMMIT = "vllm-commit"


@dataclass(frozen=True)
class Point:
    """Runs of one commit or of one baseline, or a single run.

    Attributes:
        runs: in the order of their times.
        values: one for each run, ns.
        left_out_pct: share of the time of its steps that is not compared.
        looked: what the point is in its series.
    """

    runs: tuple[Recorded, ...]
    values: tuple[float, ...]
    left_out_pct: float
    looked: Looked

    @property
    def ns(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Series:
    """Points that may be compared.

    Attributes:
        setup: name of the set-up.
        scope: a phase, or all.
        kind: of the metric: whole, part or role.
        apart: what tells it from another series of that set-up, scope and metric; mostly empty.
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
    asked: Sequence[str],
    threshold: float,
    window: int,
) -> list[Series]:
    """The series of all set-ups, those with most runs first.

    Raises:
        QueryInvalid: no run has a metric that is asked for.
    """
    found: list[Series] = []
    phases, metrics = set[str](), set[str]()
    for setup in sorted(setups, key=lambda one: -len(one.runs)):
        with Values([*setup.runs]) as values:
            phases |= set(values.phases)
            metrics |= values.metrics.keys()
            wanted = asked_series(asked, values.phases, values.metrics)
            for scope in dict.fromkeys(scope for scope, _ in wanted):
                names = [metric for each, metric in wanted if each == scope]
                found += _of_scope(setup, values, scope, names, by, threshold, window)
    require_known(asked, phases, metrics)
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
    looked = looked_at(medians, threshold=threshold, window=window)
    for group, own in zip(groups.values(), looked, strict=True):
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
