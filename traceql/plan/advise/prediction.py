"""The time of a step of a layout, what users would see of it, and how uncertain that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from traceql.analysis.model.parts import padded_vocabulary
from traceql.plan.advise.layouts import (
    Layout,
    Load,
    Model,
    decode,
    fullest_rank,
    prefill,
    replicas_are_independent,
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
class Communication:
    """Times of one step, ns.

    Attributes:
        layer_ns: of one layer, after attention and after the MLP.
        first_ns: of the embedding, on the first stage.
        last_ns: of the logits, on the last stage.
        hand_over_ns: between two stages.
    """

    layer_ns: float
    first_ns: float
    last_ns: float
    hand_over_ns: float


def communication(
    model: Model, layout: Layout, load: Load, collective_ns: CollectiveNs
) -> Communication:
    """The communication of the ranks of a replica in a step of this load."""
    tp, size = layout.tp, load.tokens * model.row_bytes
    reduced = collective_ns("all_reduce", tp, size)
    # Each rank sends its share of the hidden state and the residual; the next stage gathers them.
    handed = collective_ns("send", 2, 2 * size / tp) + collective_ns("all_gather", tp, 2 * size)
    logits = load.requests * padded_vocabulary(model.sizes) * model.formats.plain.input_bytes
    return Communication(
        layer_ns=reduced + _after_mlp(layout, size, reduced, collective_ns, model),
        first_ns=reduced,
        last_ns=collective_ns("all_gather", tp, logits),
        hand_over_ns=handed if layout.pp > 1 else 0.0,
    )


def _after_mlp(
    layout: Layout, size: float, reduced: float, collective_ns: CollectiveNs, model: Model
) -> float:
    """One all-reduce, or the exchange of the tokens of all replicas with the experts.

    In models with both, the few layers without experts count like those with experts.
    """
    if model.sizes.experts is None or replicas_are_independent(layout):
        return reduced
    ranks, of_all = layout.expert_ranks, size * layout.dp
    return collective_ns("all_gather", ranks, of_all) + collective_ns(
        "reduce_scatter", ranks, of_all
    )


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
    model: Model,
    layout: Layout,
    load: Load,
    evidence: Evidence,
    collective_ns: CollectiveNs,
) -> StepTime | None:
    """The step of one replica; None if the evidence does not have the times of its roles."""
    times = _times(model, layout, load, evidence)
    if times is None:
        return None
    sent = communication(model, layout, load, collective_ns)
    sizes = stage_sizes(model.layers, layout.pp)
    computed = [_of_stage(times.ns, n, sizes) for n in range(layout.pp)]
    least = [_of_stage(times.least_ns, n, sizes) for n in range(layout.pp)]
    moved = [size * sent.layer_ns for size in sizes]
    moved[0] += sent.first_ns
    moved[-1] += sent.last_ns
    handed = (layout.pp - 1) * sent.hand_over_ns
    idle = times.ns.get("idle", 0.0)
    stages = [a + b for a, b in zip(computed, moved, strict=True)]
    return StepTime(
        ns=sum(stages) + handed,
        slowest_stage_ns=max(stages) + sent.hand_over_ns,
        computing_ns=sum(computed) - idle,
        communication_ns=sum(moved) + handed,
        idle_ns=idle,
        least_ns=sum(least),
        unknown=times.unknown,
    )


def _times(model: Model, layout: Layout, load: Load, evidence: Evidence) -> RoleTimes | None:
    """The times of a rank; with spread experts, those of the fullest rank."""
    own = evidence.times(load, layout.tp)
    if own is None or model.sizes.experts is None or not layout.ep:
        return own
    replicas = 1 if replicas_are_independent(layout) else layout.dp
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
    share = sizes[number] / sum(sizes)
    is_first, is_last = number == 0, number == len(sizes) - 1
    total = 0.0
    for role, whole in ns.items():
        if role in FIRST_STAGE:
            total += whole * is_first
        elif role in LAST_STAGE:
            total += whole * is_last
        elif role in EVERY_STAGE:
            total += whole
        else:
            total += whole * share
    return total


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
        share = max(_OTHER_BATCH, evidence.error_pct, *_changes(evidence, layout)) / 100
        default = Spread(1 / (1 + share), 1 + share)
    # At least as wide as the largest error, and so wide that it contains each measured time.
    counting = errors.counting_for(layout)
    worst = max(map(abs, counting), default=0.0)
    measured = [1 / (1 + error) for error in counting]
    return Spread(
        min(default.low, 1 / (1 + worst), *measured), max(default.high, 1 + worst, *measured)
    )


def _changes(evidence: Evidence, layout: Layout) -> list[float]:
    """The errors for what differs from the recording."""
    found = [0.0]
    if not evidence.is_recorded:
        return found
    if layout.tp != evidence.recorded_tp:
        found.append(_OTHER_TP)
    if evidence.is_other_gpu:
        found.append(_OTHER_GPU)
    if layout.pp > 1 or (layout.ep and layout.dp > 1):
        found.append(_NOT_CHECKED)
    return found


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
    """Predicts layouts from one source of evidence.

    Attributes:
        prompt_evidence: for prompts, if the evidence does not have their times.
        errors: of the same predictions at measured points.
    """

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
            layout=layout,
            requests=served,
            step=step,
            prompt=prompt,
            step_ns=step_ns,
            ttft_ns=prompt.ns,
            tpot_ns=tpot_ns,
            tokens_per_s=served * self.requests.output_tokens / lifetime_ns * 1e9,
            spread=spread_of(self.evidence, layout, step, self.errors),
            has_recorded_prompts=is_recorded,
        )

    def prompts(self, layout: Layout, number: int) -> tuple[StepTime, bool]:
        """The step that processes whole prompts, and whether it comes from the recording."""
        load = prefill(self.requests.prompt_tokens, number)
        found = step_time(self.model, layout, load, self.evidence, self.collective_ns)
        if found is not None and not found.unknown:
            return found, self.evidence.is_recorded
        default = step_time(self.model, layout, load, self.prompt_evidence, self.collective_ns)
        assert default is not None, "defaults cover every layout"
        return default, False


@dataclass(frozen=True)
class BatchTimes:
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

    Args:
        step_tokens: tokens of prompts that a step can process.
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
