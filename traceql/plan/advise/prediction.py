"""The time of a step of a layout, what users would see of it, and how uncertain that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from traceql.analysis.model.parts import padded_vocabulary
from traceql.plan.advise.layouts import (
    Layout,
    Load,
    Model,
    decode,
    fullest_rank,
    prefill,
    stage_sizes,
)
from traceql.plan.advise.role_times import (
    EVERY_STAGE,
    EXPERTS,
    FIRST_STAGE,
    LAST_STAGE,
    Evidence,
    RoleTimes,
)

# Duration of an operation (all_reduce, all_gather, reduce_scatter or send) without waiting, ns, by
# its name, number of ranks and size of the whole buffer in bytes.
CollectiveNs = Callable[[str, int, float], float]


@dataclass(frozen=True)
class StepTime:
    """One pass of one batch through all stages, ns.

    Attributes:
        ns: from the first stage to the end of the last.
        slowest_stage_ns: the interval between batches, if there are several.
        computing_ns, communication_ns, idle_ns: the parts of `ns`.
        least_ns: computing alone at the peaks of the GPU.
        unknown: the parts that are missing in all of these.
    """

    ns: float
    slowest_stage_ns: float
    computing_ns: float
    communication_ns: float
    idle_ns: float
    least_ns: float
    unknown: tuple[str, ...]


def step_time(
    model: Model, layout: Layout, load: Load, evidence: Evidence, collective_ns: CollectiveNs
) -> StepTime | None:
    """The step of one replica; None if the evidence does not have the times of its roles."""
    times = _times(model, layout, load, evidence)
    if times is None:
        return None
    tp, size = layout.tp, load.tokens * model.row_bytes
    reduced = after_mlp = collective_ns("all_reduce", tp, size)
    if model.sizes.experts and layout.replicas_share_experts:
        # The tokens of all replicas are exchanged with the experts. In models with both, the few
        # layers without experts count like those with experts.
        exchanged = layout.expert_ranks, size * layout.dp
        after_mlp = sum(collective_ns(op, *exchanged) for op in ("all_gather", "reduce_scatter"))
    sizes = stage_sizes(model.layers, layout.pp)
    computed = [_of_stage(times.ns, n, sizes) for n in range(layout.pp)]
    least = [_of_stage(times.least_ns, n, sizes) for n in range(layout.pp)]
    moved = [size * (reduced + after_mlp) for size in sizes]
    moved[0] += reduced  # the embedding
    logits = load.requests * padded_vocabulary(model.sizes) * model.formats.plain.input_bytes
    moved[-1] += collective_ns("all_gather", tp, logits)
    handed = 0.0
    if layout.pp > 1:
        # Each rank sends its share of the hidden state and the residual; the next stage gathers
        # them.
        handed = collective_ns("send", 2, 2 * size / tp) + collective_ns("all_gather", tp, 2 * size)
    idle = times.ns.get("idle", 0.0)
    stages = [a + b for a, b in zip(computed, moved, strict=True)]
    return StepTime(
        ns=sum(stages) + (layout.pp - 1) * handed,
        slowest_stage_ns=max(stages) + handed,
        computing_ns=sum(computed) - idle,
        communication_ns=sum(moved) + (layout.pp - 1) * handed,
        idle_ns=idle,
        least_ns=sum(least),
        unknown=times.unknown,
    )


def _times(model: Model, layout: Layout, load: Load, evidence: Evidence) -> RoleTimes | None:
    """The times of a rank; with spread experts, those of the fullest rank."""
    own = evidence.times(load, layout.tp)
    if own is None or model.sizes.experts is None or not layout.ep:
        return own
    replicas = layout.dp if layout.replicas_share_experts else 1
    all_loads = load.of_replicas(replicas)
    spread = evidence.times(all_loads, layout.expert_ranks)
    if spread is None:
        return None
    ratio = fullest_rank(model.sizes.experts, layout.expert_ranks, all_loads.tokens)
    experts = {role: ns * ratio for role, ns in spread.ns.items() if role in EXPERTS}
    least = {role: ns for role, ns in spread.least_ns.items() if role in EXPERTS}
    return RoleTimes({**own.ns, **experts}, {**own.least_ns, **least}, own.unknown)


def _of_stage(ns: Mapping[str, float], number: int, sizes: list[int]) -> float:
    """The time of one stage, which has its share of the layers."""
    shares = {FIRST_STAGE: number == 0, LAST_STAGE: number == len(sizes) - 1, EVERY_STAGE: 1}
    of_role = {role: float(share) for roles, share in shares.items() for role in roles}
    of_layers = sizes[number] / sum(sizes)
    return sum(whole * of_role.get(role, of_layers) for role, whole in ns.items())


# Worst errors of predicted steps, percent; docs/advise.md, docs/definitions.md ("What if").
_OTHER_BATCH = 11.0
_OTHER_TP = 12.5
_OTHER_GPU = 15.0
_NOT_CHECKED = 25.0  # stages and spread experts: at most one recording to check them with
_DEFAULTS_ABOVE = 1.5  # an allowance: recorded decode steps took 0.89 to 0.97 of the defaults


@dataclass(frozen=True)
class Spread:
    """Bounds of a time / the predicted time."""

    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{100 * (self.low - 1):+.0f}% to {100 * (self.high - 1):+.0f}%"


@dataclass(frozen=True)
class MeasuredErrors:
    """Predicted / measured - 1 of the points of each layout that were measured."""

    by_layout: Mapping[Layout, Sequence[float]] = field(default_factory=dict)

    def counting_for(self, layout: Layout) -> Sequence[float]:
        """Those of the layout; if it was not measured, of all."""
        every = [error for errors in self.by_layout.values() for error in errors]
        return self.by_layout.get(layout, every)

    def worst_pct(self, layout: Layout) -> float | None:
        """The largest that counts for the layout; None if nothing was measured."""
        return max((100 * abs(error) for error in self.counting_for(layout)), default=None)


NOT_MEASURED = MeasuredErrors()


def spread_of(
    evidence: Evidence, layout: Layout, step: StepTime, errors: MeasuredErrors = NOT_MEASURED
) -> Spread:
    """The uncertainty of a prediction, at least as wide as its errors at measured points.

    Without a recording and a measured point of the layout, it reaches from the floor to what the
    slowest recorded step took.
    """
    if not evidence.is_recorded and layout not in errors.by_layout:
        default = Spread(min(1.0, step.least_ns / step.ns), _DEFAULTS_ABOVE)
    else:
        changes = {  # what differs from the recording, with its error
            _OTHER_TP: layout.tp != evidence.recorded_tp,
            _OTHER_GPU: evidence.is_other_gpu,
            _NOT_CHECKED: layout.pp > 1 or layout.replicas_share_experts,
        }
        known = [error for error, applies in changes.items() if applies and evidence.is_recorded]
        share = max(_OTHER_BATCH, evidence.error_pct, *known) / 100
        default = Spread(1 / (1 + share), 1 + share)
    # At least as wide as the largest error, and so wide that it contains each measured time.
    counting = errors.counting_for(layout)
    worst = max(map(abs, counting), default=0.0)
    measured = [1 / (1 + error) for error in counting]
    return Spread(
        min(default.low, 1 / (1 + worst), *measured), max(default.high, 1 + worst, *measured)
    )


@dataclass(frozen=True)
class Requests:
    """Tokens of each prompt and of each answer."""

    prompt_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """Tokens of a request at its end."""
        return self.prompt_tokens + self.output_tokens

    @property
    def mean_tokens(self) -> int:
        """Tokens of a request halfway through its answer."""
        return self.prompt_tokens + self.output_tokens // 2


@dataclass(frozen=True)
class Prediction:
    """One layout and number of requests at a time.

    Attributes:
        requests: at the same time, in all replicas together.
        step: the decode step of one batch of a replica.
        step_ns: interval between tokens of a request while no prompt is processed.
        prompt: the step that processes one whole prompt.
        ttft_ns: until the first token, without waiting in a queue.
        tpot_ns: mean time of each further token, including steps with prompts of other requests.
        tokens_per_s: generated by all replicas together.
        spread: the uncertainty of all times.
        has_recorded_prompts: whether the times of prompts come from the recording.
    """

    layout: Layout
    requests: int
    step: StepTime
    prompt: StepTime
    step_ns: float
    ttft_ns: float
    tpot_ns: float
    tokens_per_s: float
    spread: Spread
    has_recorded_prompts: bool

    @property
    def tokens_per_s_per_gpu(self) -> float:
        return self.tokens_per_s / self.layout.gpus


@dataclass(frozen=True)
class Predictor:
    """Predicts layouts from one source of evidence, and prompts from another if it lacks them."""

    model: Model
    evidence: Evidence
    prompt_evidence: Evidence
    collective_ns: CollectiveNs
    requests: Requests
    errors: MeasuredErrors = NOT_MEASURED

    def predicted(self, layout: Layout, per_replica: int) -> Prediction | None:
        """None if the evidence does not have the times of this layout.

        Args:
            per_replica: requests at a time; with stages, a multiple of their number, or fewer.
        """
        batches = min(layout.pp, per_replica)
        load = decode(-(-per_replica // batches), self.requests.mean_tokens)
        step = step_time(self.model, layout, load, self.evidence, self.collective_ns)
        if step is None:
            return None
        prompt, is_recorded = self.prompts(layout, 1)
        step_ns = max(step.ns, batches * step.slowest_stage_ns)
        answered = self.requests.output_tokens - 1
        # Each of the other requests has its prompt processed once in the life of a request.
        tpot_ns = step_ns + (per_replica - 1) * prompt.slowest_stage_ns / answered
        lifetime_ns = prompt.ns + answered * tpot_ns
        served = per_replica * layout.dp
        return Prediction(
            layout, served, step, prompt, step_ns, ttft_ns=prompt.ns, tpot_ns=tpot_ns,
            tokens_per_s=served * self.requests.output_tokens / lifetime_ns * 1e9,
            spread=spread_of(self.evidence, layout, step, self.errors),
            has_recorded_prompts=is_recorded,
        )  # fmt: skip

    def prompts(self, layout: Layout, number: int) -> tuple[StepTime, bool]:
        """The step that processes whole prompts, and whether it comes from the recording."""
        load = prefill(self.requests.prompt_tokens, number)
        found = step_time(self.model, layout, load, self.evidence, self.collective_ns)
        if found is not None and not found.unknown:
            return found, self.evidence.is_recorded
        default = step_time(self.model, layout, load, self.prompt_evidence, self.collective_ns)
        assert default is not None, "defaults cover every layout"
        return default, False


class BatchTimes(NamedTuple):
    """Medians over the requests of a batch, ns."""

    ttft_ns: float
    tpot_ns: float


def batch_times(
    predictor: Predictor, layout: Layout, per_replica: int, *, step_tokens: int
) -> BatchTimes | None:
    """The times of a batch on each replica; None if the evidence does not have them.

    Prompts are processed in the order of their requests, as many in a step as fit. A request has
    its first token after the step of its own prompt; the steps of later prompts are in its time
    between tokens.
    """
    found = predictor.predicted(layout, per_replica)
    if found is None:
        return None
    together = min(per_replica, max(1, step_tokens // predictor.requests.prompt_tokens))
    prompts, _ = predictor.prompts(layout, together)
    # As numbers of full steps; the last one may have fewer prompts.
    numbers = range(1, per_replica + 1)
    done = median(min(-(-n // together) * together, per_replica) for n in numbers) / together
    later = per_replica / together - done
    answered = predictor.requests.output_tokens - 1
    return BatchTimes(
        ttft_ns=prompts.ns + (done - 1) * prompts.slowest_stage_ns,
        tpot_ns=found.step_ns + later * prompts.slowest_stage_ns / answered,
    )
