"""A model, its parallel layouts on N GPUs, their memory, and the load of a step."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

from traceql.analysis.model.parts import padded_vocabulary, parts
from traceql.analysis.model.sizes import Experts, Sizes, sizes
from traceql.analysis.model.weights import Formats, formats
from traceql.errors import UnknownModel
from traceql.util.files import Unusable, read_text
from traceql.util.resources import MODELS
from traceql.util.text import suggestion


@dataclass(frozen=True)
class Model:
    name: str
    sizes: Sizes
    formats: Formats

    @property
    def layers(self) -> int:
        return len(self.sizes.layers)

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's activations."""
        return self.sizes.hidden * self.formats.plain.input_bytes


def model_named(name: str) -> Model:
    """The model of a configuration that traceql brings, or of a config.json or a folder with one.

    Raises UnknownModel if there is none, or its sizes do not follow from it; nothing is guessed.
    """
    known = _built_in()
    path = known.get(name.lower()) or Path(name)
    if path.is_dir():
        path /= "config.json"
    if not path.exists():
        hint = suggestion(name.lower(), known) or "give a name, or the path of a config.json"
        raise UnknownModel(f"no model '{name}' (it has: {', '.join(known)}); {hint}")
    try:
        document = json.loads(read_text(path))
    except (Unusable, ValueError) as error:
        raise UnknownModel(f"cannot read the model configuration {path}: {error}") from None
    if not isinstance(document, dict):
        raise UnknownModel(f"{path} is not the config.json of a model")
    return described(name, document)


def built_in_model(name: str) -> Model | None:
    """The model of a configuration that traceql brings."""
    return model_named(name) if name.lower() in _built_in() else None


def _built_in() -> dict[str, Path]:
    return {file.stem: file for file in sorted(MODELS.glob("*.json"))}


def described(name: str, document: Mapping[str, Any]) -> Model:
    """The model that a configuration describes.

    Raises UnknownModel if its sizes or formats do not follow from it.
    """
    found, stored = sizes(document), formats(document, None, None)
    if isinstance(found, str):
        raise UnknownModel(f"{name}: {found}, so nothing can be predicted")
    if isinstance(stored, str):
        raise UnknownModel(f"{name}: the {stored} is not known, so nothing can be predicted")
    missing = stored.linear.missing or stored.experts.missing
    if missing:
        raise UnknownModel(f"{name}: {missing} are not known, so nothing can be predicted")
    return Model(name, found, stored)


def has_layers_of(model: Model, other: Model) -> bool:
    """Whether two models differ at most in the number of their layers, all of which are alike."""
    if (model.sizes, model.formats) == (other.sizes, other.formats):
        return True
    layers = {*model.sizes.layers, *other.sizes.layers}
    sizes_apart = [replace(one.sizes, layers=()) for one in (model, other)]
    is_alike = sizes_apart[0] == sizes_apart[1] and model.formats == other.formats
    return len(layers) == 1 and is_alike


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

    @property
    def replicas_share_experts(self) -> bool:
        """Whether replicas wait for each other."""
        return self.ep and self.dp > 1

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
    """The memory of a layout on GPUs of which vLLM may use this share."""
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
        weights = 0.0
        for part in own:
            share = 1.0
            if part.experts and layout.ep:  # the bytes are those of 1/tp of each expert
                share = layout.tp * -(-part.experts // layout.expert_ranks) / part.experts
            weights += (part.weight_bytes or 0.0) * share
        weights += tables * _table_bytes(model, layout.tp)
        kv = sum(part.kv_read for part in own) * model.formats.plain.input_bytes
        found.append((weights, float(kv)))
        begin += size
    return found


def _table_bytes(model: Model, tp: int) -> float:
    """Bytes of the embedding, or of the output projection, on one rank."""
    return -(-padded_vocabulary(model.sizes) // tp) * model.row_bytes
