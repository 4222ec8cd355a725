"""The parallel layouts of a model on N GPUs, their memory, and the load of a step."""

from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist

from traceql.analysis.model.parts import Part, padded_vocabulary, parts
from traceql.analysis.model.sizes import Experts, Sizes
from traceql.plan.advise.models import Model


@dataclass(frozen=True)
class Layout:
    """How a model is split over GPUs.

    Attributes:
        tp: tensor-parallel ranks.
        pp: pipeline stages.
        dp: replicas, which share the requests; without `ep` they are independent servers.
        ep: whether whole experts are spread over the ranks of all replicas.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def expert_ranks(self) -> int:
        """Ranks that the experts of a layer are spread over."""
        return self.tp * self.dp if self.ep else self.tp

    def __str__(self) -> str:
        sizes = {"TP": self.tp, "PP": self.pp, "DP": self.dp}
        named = [f"{name} {size}" for name, size in sizes.items() if size > 1] or ["TP 1"]
        return " x ".join(named) + (" with EP" if self.ep else "")


def layouts(model: Sizes, gpus: int) -> list[Layout]:
    """Every layout of at most N GPUs that vLLM can run, the smallest first."""
    found = [
        layout
        for tp in range(1, gpus + 1)
        for pp in range(1, gpus // tp + 1)
        for dp in range(1, gpus // (tp * pp) + 1)
        for ep in ((False, True) if model.experts and tp * dp > 1 else (False,))
        if obstacle(model, layout := Layout(tp, pp, dp, ep)) is None
    ]
    return sorted(found, key=lambda one: (one.gpus, one.tp, one.pp, one.ep))


def obstacle(model: Sizes, layout: Layout) -> str | None:
    """Why vLLM cannot run a layout of the model; None if it can."""
    tp, kv_heads = layout.tp, model.kv_heads
    if model.heads % tp:
        return f"{model.heads} heads cannot be divided by {tp}"
    if not model.latent and kv_heads % tp and tp % kv_heads:
        return f"{kv_heads} KV heads can neither be divided by {tp} nor repeated on {tp} ranks"
    if model.ffn and model.ffn % tp:
        return f"an MLP of {model.ffn} cannot be divided by {tp}"
    if model.experts and not layout.ep and model.experts.ffn % tp:
        return f"experts of {model.experts.ffn} cannot be divided by {tp}"
    if model.experts and layout.ep and layout.expert_ranks > model.experts.count:
        return f"{model.experts.count} experts are fewer than {layout.expert_ranks} ranks"
    if layout.pp > len(model.layers):
        return f"{len(model.layers)} layers are fewer than {layout.pp} stages"
    return None


def stage_sizes(layers: int, stages: int) -> list[int]:
    """The number of layers of each stage; the last stage gets none of the remainder."""
    sizes = [layers // stages] * stages
    for number in range(layers % stages):
        sizes[-2 - number] += 1
    return sizes


def replicas_are_independent(layout: Layout) -> bool:
    """Whether no replica waits for another one."""
    return not (layout.ep and layout.dp > 1)


@dataclass(frozen=True)
class Load:
    """The sizes of a step.

    Attributes:
        phase: decode or prefill.
        requests: in the step; each has one row of logits.
        tokens: rows of every other product.
        length: mean tokens of a request whose keys and values are read, its new ones included.
    """

    phase: str
    requests: int
    tokens: int
    length: int

    @property
    def kv_tokens(self) -> int:
        return self.requests * self.length

    @property
    def context_pairs(self) -> float:
        """Pairs of a query and a key of prompts, with causal attention."""
        return self.requests * self.length * (self.length + 1) / 2 if self.phase == "prefill" else 0

    @property
    def generation_pairs(self) -> float:
        return self.kv_tokens if self.phase == "decode" else 0

    def of_replicas(self, replicas: int) -> "Load":
        """The load of N replicas together."""
        return replace(self, requests=self.requests * replicas, tokens=self.tokens * replicas)


def decode(requests: int, length: int) -> Load:
    """A step that generates one token of each request."""
    return Load("decode", requests, requests, length)


def prefill(prompt_tokens: int, prompts: int = 1) -> Load:
    """A step that processes whole prompts."""
    return Load("prefill", prompts, prompts * prompt_tokens, prompt_tokens)


def fullest_rank(experts: Experts, ranks: int, tokens: int) -> float:
    """Work of the fullest rank / the mean, if all experts are equally likely.

    With few tokens, the number of distinct experts counts, whose weights are read; with many, the
    number of rows. Both are nearly normal, so the largest of N ranks is a number of standard
    deviations above the mean (Blom's approximation).
    """
    if ranks == 1:
        return 1.0
    deviations = NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
    own, chosen = experts.count / ranks, experts.top_k / experts.count
    touched = 1 - (1 - chosen) ** tokens
    of_experts = sqrt(own * touched * (1 - touched)) / (own * touched)
    drawn = (experts.count - experts.top_k) / max(experts.count - 1, 1)
    rows = tokens * experts.top_k / ranks
    of_rows = sqrt(rows * (1 - 1 / ranks) * drawn) / rows
    return 1 + deviations * (of_experts if touched < 0.99 else of_rows)


# Memory of vLLM besides weights and KV cache; its source is in docs/advise.md.
RESERVED_BYTES = 2e9


@dataclass(frozen=True)
class Memory:
    """Memory of the GPU with the least headroom.

    Attributes:
        weight_bytes: most weights on any GPU.
        kv_bytes_per_token: on the GPU that limits the number of tokens.
        kv_tokens: tokens of the KV cache of a replica; 0 if the weights do not fit.
        requests: requests of the greatest length that fit at the same time, in all replicas.
        obstacle: why the layout does not fit; None if it does.
    """

    weight_bytes: float
    kv_bytes_per_token: float
    kv_tokens: int
    requests: int
    obstacle: str | None


def memory(
    model: Model, layout: Layout, *, gpu_bytes: float, utilization: float, request_tokens: int
) -> Memory:
    """The memory of a layout on GPUs of which vLLM may use this share.

    Args:
        request_tokens: tokens of a request at its end.
    """
    stages = _stage_bytes(model, layout)
    usable = max(gpu_bytes * utilization - RESERVED_BYTES, 0.0)
    heaviest = max(weights for weights, _ in stages)
    if heaviest > usable:
        why = f"weights of {heaviest / 1e9:.1f} GB per GPU, but {usable / 1e9:.1f} GB usable"
        return Memory(heaviest, max(kv for _, kv in stages), 0, 0, why)
    tokens, per_token = min((int((usable - weights) // kv), kv) for weights, kv in stages)
    requests = tokens // request_tokens * layout.dp
    why = f"room for {tokens:,} tokens in the KV cache, but a request has {request_tokens:,}"
    return Memory(heaviest, per_token, tokens, requests, None if requests else why)


def least_weight_bytes(model: Model, layout: Layout) -> float | None:
    """Lower bound of the weights on the fullest GPU, however vLLM divides layers and experts.

    None if the layout is impossible, or if the weights have 32 bits, which vLLM stores as 16.
    """
    if obstacle(model.sizes, layout) or model.formats.plain.input_bytes > 2:
        return None
    layers = sum(
        # vLLM spreads experts over all ranks of all replicas, also without `ep`.
        (part.weight_bytes or 0.0) / (layout.dp if part.experts else 1)
        for part in parts(model.sizes, model.formats, layout.tp)
        if part.layer is not None
    )
    tables = 1 if model.sizes.tied else 2
    return (layers + tables * _table_bytes(model, layout.tp)) / layout.pp


def _stage_bytes(model: Model, layout: Layout) -> list[tuple[float, float]]:
    """Bytes of weights, and of the KV cache per token, on a GPU of each stage."""
    all_parts = list(parts(model.sizes, model.formats, layout.tp))
    found, begin = [], 0
    for number, size in enumerate(stage_sizes(model.layers, layout.pp)):
        layers = range(begin, begin + size)
        own = [part for part in all_parts if part.layer in layers]
        is_first, is_last = number == 0, number == layout.pp - 1
        tables = int(is_first) + int(is_last and not (is_first and model.sizes.tied))
        weights = sum(_weights(part, layout) for part in own)
        weights += tables * _table_bytes(model, layout.tp)
        kv = sum(part.kv_read for part in own) * model.formats.plain.input_bytes
        found.append((weights, float(kv)))
        begin += size
    return found


def _weights(part: Part, layout: Layout) -> float:
    whole = part.weight_bytes or 0.0
    if part.experts is None or not layout.ep:
        return whole
    # `whole` is what 1/tp of each expert takes.
    share = -(-part.experts // layout.expert_ranks) / part.experts
    return whole * layout.tp * share


def _table_bytes(model: Model, tp: int) -> float:
    """Bytes of the embedding, or of the output projection, on one rank."""
    return -(-padded_vocabulary(model.sizes) // tp) * model.row_bytes
