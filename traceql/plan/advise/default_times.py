"""Times of roles where nothing was recorded: the peaks, times efficiencies that are usual."""

from collections import defaultdict
from dataclasses import dataclass

from traceql.plan.advise.floor import PartFloor, floors
from traceql.plan.advise.load import Load
from traceql.plan.advise.machine import Machine
from traceql.plan.advise.models import Model
from traceql.plan.advise.role_times import RoleTimes

# Decode steps of Qwen3-8B on an H200: products read their weights at 0.9 of the peak and take
# some microseconds to start. docs/advise.md has the numbers.
MEMORY_SHARE = 0.9
COMPUTE_SHARE = 0.75
_START_NS = {"product": 5_000, "experts": 10_000, "attention": 12_000, "latent_attention": 12_000}
_SMALL_START_NS = 2_000
_GAP_NS = 500  # between kernels of a replayed graph
_SAMPLING_NS = 50_000  # sampling, inputs and copies


@dataclass(frozen=True)
class DefaultTimes:
    """The defaults for a model on a kind of GPU."""

    model: Model
    machine: Machine
    is_recorded: bool = False
    recorded_tp: int | None = None
    is_elsewhere: bool = False
    error_pct: float = 0.0

    def times(self, load: Load, tp: int) -> RoleTimes:
        ns: dict[str, float] = defaultdict(float)
        least: dict[str, float] = defaultdict(float)
        for one in floors(self.model, self.machine, load, tp):
            ns[one.part.role] += one.layers * _usual_ns(one)
            least[one.part.role] += one.layers * one.ns
        ns["sample"] = _SAMPLING_NS
        return RoleTimes(ns, least)


def _usual_ns(one: PartFloor) -> float:
    start = _START_NS.get(one.part.formula, _SMALL_START_NS) + _GAP_NS
    return max(one.compute_ns / COMPUTE_SHARE, one.memory_ns / MEMORY_SHARE) + start
