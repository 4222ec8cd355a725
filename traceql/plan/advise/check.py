"""How far predictions are from what was measured: every point that can be compared."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import log

from traceql.plan.advise.batch import batch_times
from traceql.plan.advise.comparable import Comparable
from traceql.plan.advise.layouts import Layout
from traceql.plan.advise.machine import Machine
from traceql.plan.advise.measured import MeasuredPoint, Results
from traceql.plan.advise.prediction import Predictor, Requests
from traceql.plan.advise.subject import require_subject
from traceql.plan.advise.uncertainty import MeasuredErrors

_GIB = 2**30
_LARGE_GPU_BYTES = 70 * _GIB


@dataclass(frozen=True)
class Checked:
    """A measured point with its prediction; errors are predicted / measured - 1.

    Attributes:
        ttft_ns: predicted; None if it depends on how the requests meet.
    """

    point: MeasuredPoint
    tpot_ns: float
    ttft_ns: float | None

    @property
    def tpot_error(self) -> float:
        assert self.point.tpot_ns
        return self.tpot_ns / self.point.tpot_ns - 1

    @property
    def ttft_error(self) -> float | None:
        if self.ttft_ns is None or not self.point.ttft_ns:
            return None
        return self.ttft_ns / self.point.ttft_ns - 1


@dataclass(frozen=True)
class LeftOut:
    """A measured point that no prediction is compared with."""

    point: MeasuredPoint
    reason: str


@dataclass(frozen=True)
class Check:
    """All measured points.

    Attributes:
        name: where the results come from.
    """

    name: str
    checked: Sequence[Checked]
    left_out: Sequence[LeftOut]

    @property
    def ttft_errors(self) -> Sequence[float]:
        """Of the points whose TTFT is predicted."""
        return [one.ttft_error for one in self.checked if one.ttft_error is not None]

    def errors(self, limited: Collection[str]) -> MeasuredErrors:
        """Those of TPOT, from which throughput follows, and of TTFT if the goal limits it."""
        found: dict[Layout, list[float]] = {}
        for one in self.checked:
            own = found.setdefault(one.point.layout, [])
            own.append(one.tpot_error)
            if "ttft" in limited and one.ttft_error is not None:
                own.append(one.ttft_error)
        return MeasuredErrors(found)

    def beside(self, layout: Layout, requests: Requests, served: int) -> MeasuredPoint | None:
        """The point with such requests, of which the most nearly as many are served at a time."""
        alike = [
            one.point
            for one in self.checked
            if (one.point.layout, one.point.requests) == (layout, requests)
        ]
        return min(alike, key=lambda point: _distance(point, served), default=None)


def _distance(point: MeasuredPoint, served: int) -> tuple[float, bool]:
    return abs(log((point.in_flight or 1) / served)), point.is_batch


def check(results: Results, predictor: Predictor, machine: Machine) -> Check:
    """Predicts each point that can be compared.

    Raises:
        TraceqlError: the results are of another model or GPU.
    """
    require_subject(results, predictor.model, machine.name)
    comparable = Comparable(predictor.model, machine)
    checked, left_out = list[Checked](), list[LeftOut]()
    for point in results.points:
        reason = comparable.difference(point)
        found = None if reason else _checked(point, predictor, machine)
        if found:
            checked.append(found)
        else:
            left_out.append(LeftOut(point, reason or "layout that the recording does not tell of"))
    return Check(results.name, checked, left_out)


def _checked(point: MeasuredPoint, predictor: Predictor, machine: Machine) -> Checked | None:
    own = replace(predictor, requests=point.requests)
    if point.is_batch:
        tokens = _step_tokens(point, machine)
        batch = batch_times(own, point.layout, point.per_replica, step_tokens=tokens)
        return Checked(point, batch.tpot_ns, batch.ttft_ns) if batch else None
    found = own.predicted(point.layout, point.per_replica)
    if found is None:
        return None
    return Checked(point, found.tpot_ns, found.ttft_ns if point.per_replica == 1 else None)


def _step_tokens(point: MeasuredPoint, machine: Machine) -> int:
    """Most tokens of a step: as given, else what vLLM (0.25 to 0.32) takes for a server."""
    given = point.arguments.get("max_num_batched_tokens")
    if isinstance(given, int):
        return given
    is_large = machine.memory_bytes >= _LARGE_GPU_BYTES and "A100" not in machine.name
    return 8192 if is_large else 2048
