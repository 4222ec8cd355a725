"""What a layout keeps in the memory of its fullest GPU: weights and KV cache."""

from dataclasses import dataclass

from traceql.analysis.model.parts import Part, padded_vocabulary, parts
from traceql.plan.advise.layouts import Layout, obstacle, stage_sizes
from traceql.plan.advise.models import Model

# What vLLM needs beside weights and KV cache; docs/advise.md says where it comes from.
RESERVED_BYTES = 2e9


@dataclass(frozen=True)
class Memory:
    """Memory of one GPU, the one that has the least to spare.

    Attributes:
        weight_bytes: most weights on any GPU.
        kv_bytes_per_token: of one token, on the GPU where that limits the tokens.
        kv_tokens: tokens whose keys and values fit into each replica; 0 if the weights do not fit.
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
    """What fits into GPUs of which vLLM may use this share.

    Args:
        request_tokens: tokens of a request at its end.
    """
    counted = _stages(model, layout)
    usable = max(gpu_bytes * utilization - RESERVED_BYTES, 0.0)
    heaviest = max(weights for weights, _ in counted)
    if heaviest > usable:
        why = f"weights of {heaviest / 1e9:.1f} GB per GPU, but {usable / 1e9:.1f} GB usable"
        return Memory(heaviest, max(kv for _, kv in counted), 0, 0, why)
    tokens, per_token = min((int((usable - weights) // kv), kv) for weights, kv in counted)
    requests = tokens // request_tokens * layout.dp
    if requests:
        return Memory(heaviest, per_token, tokens, requests, None)
    why = f"room for {tokens:,} tokens in the KV cache, but a request has {request_tokens:,}"
    return Memory(heaviest, per_token, tokens, 0, why)


def least_weight_bytes(model: Model, layout: Layout) -> float | None:
    """Weights that the fullest GPU has at least, however vLLM divides layers and experts.

    None if the layout is impossible, or if vLLM stores another type: it takes 16 bits for 32.
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


def _stages(model: Model, layout: Layout) -> list[tuple[float, float]]:
    """Bytes of weights, and of the KV cache per token, on a GPU of each stage."""
    listed = list(parts(model.sizes, model.formats, layout.tp))
    ends = stage_ends(model.layers, layout.pp)
    found = []
    for number, (begin, end) in enumerate(ends):
        own = [part for part in listed if part.layer is not None and begin <= part.layer < end]
        weights = sum(_weights(part, layout) for part in own)
        is_first, is_last = number == 0, number == layout.pp - 1
        tables = int(is_first) + int(is_last and not (is_first and model.sizes.tied))
        weights += tables * _table_bytes(model, layout.tp)
        kv = sum(part.kv_read for part in own) * model.formats.plain.input_bytes
        found.append((weights, float(kv)))
    return found


def stage_ends(layers: int, stages: int) -> list[tuple[int, int]]:
    """The first layer of each stage, and the one after its last."""
    sizes = stage_sizes(layers, stages)
    return [(sum(sizes[:number]), sum(sizes[: number + 1])) for number in range(stages)]


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
