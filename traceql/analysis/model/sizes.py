"""The sizes of a model by its configuration, and its numbers of parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

# Decoders whose sizes are known to follow from their configuration: attention with grouped queries
# or with latent keys and values, and a gated MLP or a mixture of such MLPs.
KNOWN_TYPES = frozenset(
    (
        *("deepseek_v2", "deepseek_v3", "gemma2", "gemma3", "gemma3_text", "glm4_moe", "gpt_oss"),
        *("granite", "llama", "mistral", "mixtral", "olmo2", "phi3", "qwen2", "qwen2_moe"),
        *("qwen3", "qwen3_moe", "smollm3"),
    )
)
_NO_BIAS = frozenset({"mistral", "mixtral", "phi3"})  # whatever their configuration states
_NO_OUTPUT_BIAS = frozenset({"glm4_moe", "qwen2", "qwen2_moe"}) | _NO_BIAS
_MLP_BIAS = frozenset({"granite", "llama", "smollm3"})  # the others have none
_HEAD_NORM = frozenset({"qwen3", "qwen3_moe", "gemma3", "gemma3_text"})
_FOUR_NORMS = frozenset({"gemma2", "gemma3", "gemma3_text"})
_ONLY_EXPERTS = frozenset({"mixtral", "gpt_oss"})  # intermediate_size is that of an expert
_TIED_BY_DEFAULT = frozenset({"gemma2", "gemma3", "gemma3_text", "smollm3"})
# Every how many layers one sees all tokens, where the configuration does not state it.
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gpt_oss": 2}
_FULL, _SLIDING = "full_attention", "sliding_attention"

_Size = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _Configuration(Struct, frozen=True):
    """The keys of config.json that are read; a model type has some of them."""

    model_type: str
    num_hidden_layers: Annotated[int, Meta(ge=1, le=1000)]
    hidden_size: _Size | None = None
    num_attention_heads: _Size | None = None
    num_key_value_heads: _Size | None = None
    head_dim: _Size | None = None
    intermediate_size: _Size | None = None
    vocab_size: _Size | None = None
    tie_word_embeddings: bool | None = None
    attention_bias: bool | None = None
    qkv_bias: bool | None = None
    mlp_bias: bool | None = None
    use_qk_norm: bool | None = None
    sliding_window: _Count | None = None
    sliding_window_pattern: _Size | None = None
    use_sliding_window: bool | None = None
    max_window_layers: _Count | None = None
    layer_types: Sequence[str] | None = None
    num_experts: _Count | None = None
    num_local_experts: _Count | None = None
    n_routed_experts: _Count | None = None
    num_experts_per_tok: _Count | None = None
    moe_intermediate_size: _Count | None = None
    n_shared_experts: _Count | None = None
    shared_expert_intermediate_size: _Count | None = None
    first_k_dense_replace: _Count | None = None
    decoder_sparse_step: _Size | None = None
    moe_layer_freq: _Size | None = None
    mlp_only_layers: Sequence[_Count] | None = None
    kv_lora_rank: _Count | None = None
    q_lora_rank: _Count | None = None
    qk_nope_head_dim: _Size | None = None
    qk_rope_head_dim: _Size | None = None
    v_head_dim: _Size | None = None


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): sizes in elements."""

    kv_rank: int
    q_rank: int | None
    nope: int
    rope: int
    value: int


@dataclass(frozen=True)
class Experts:
    """A mixture of experts.

    Attributes:
        ffn: intermediate size of one expert.
        shared_ffn: intermediate size of all shared experts together; 0 without any.
        shared_gate: whether the shared experts have a gate.
        bias: whether the router and the experts have biases.
    """

    count: int
    top_k: int
    ffn: int
    shared_ffn: int
    shared_gate: bool
    bias: bool


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        window: the sliding window of its attention, tokens; None if it sees all tokens.
        has_experts: whether its MLP is a mixture of experts.
    """

    window: int | None
    has_experts: bool


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model, in elements.

    Attributes:
        ffn: intermediate size of an MLP; None if each layer has experts.
        norms: number of norms of a layer, those of queries and keys excepted.
        sinks: whether each head has a sink, an own value in the sum of its softmax.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int | None
    vocabulary: int
    tied: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    sinks: bool
    qk_norm: Literal["head", "all heads"] | None
    norms: int
    latent: Latent | None
    experts: Experts | None
    layers: tuple[Layer, ...]


def sizes(document: Mapping[str, Any]) -> Sizes | str:
    """The sizes in the object of a configuration, or what keeps them from being known.

    The head dimension is the stated one: that of several Qwen3 models is not hidden size / heads.
    """
    try:
        config = msgspec.convert(document, _Configuration)
    except msgspec.ValidationError as error:
        return f"a value of the model configuration is not usable ({error})"
    if config.model_type not in KNOWN_TYPES:
        return f"the sizes of model type {config.model_type} are not known"
    needed = ("hidden_size", "num_attention_heads", "vocab_size")
    lacking = [name for name in needed if getattr(config, name) is None]
    if lacking:
        return f"the model configuration has no {lacking[0]}"
    odd = set(config.layer_types or ()) - {_FULL, _SLIDING}
    if odd:
        return f"the sizes of layers of type {min(odd)} are not known"
    experts = _experts(config)
    layers = tuple(_layer(config, number, experts) for number in range(config.num_hidden_layers))
    if config.intermediate_size is None and not all(layer.has_experts for layer in layers):
        return "the model configuration has no intermediate_size"
    assert config.hidden_size
    assert config.num_attention_heads
    assert config.vocab_size
    return Sizes(
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads or config.num_attention_heads,
        head_dim=config.head_dim or config.hidden_size // config.num_attention_heads,
        ffn=None if config.model_type in _ONLY_EXPERTS else config.intermediate_size,
        vocabulary=config.vocab_size,
        tied=config.model_type in _TIED_BY_DEFAULT
        if config.tie_word_embeddings is None
        else config.tie_word_embeddings,
        qkv_bias=_qkv_bias(config),
        output_bias=bool(config.attention_bias) and config.model_type not in _NO_OUTPUT_BIAS,
        mlp_bias=bool(config.mlp_bias) and config.model_type in _MLP_BIAS,
        sinks=config.model_type == "gpt_oss",
        qk_norm=_qk_norm(config),
        norms=4 if config.model_type in _FOUR_NORMS else 2,
        latent=_latent(config),
        experts=experts,
        layers=layers,
    )


def _qkv_bias(config: _Configuration) -> bool:
    if config.model_type == "qwen2":
        return True
    if config.model_type == "qwen2_moe":
        return config.qkv_bias is not False
    return bool(config.attention_bias) and config.model_type not in _NO_BIAS


def _qk_norm(config: _Configuration) -> Literal["head", "all heads"] | None:
    if config.model_type == "olmo2":
        return "all heads"
    optional = config.model_type == "glm4_moe" and config.use_qk_norm
    return "head" if config.model_type in _HEAD_NORM or optional else None


def _latent(config: _Configuration) -> Latent | None:
    if not (config.kv_lora_rank and config.qk_nope_head_dim and config.qk_rope_head_dim):
        return None
    return Latent(
        config.kv_lora_rank,
        config.q_lora_rank,
        config.qk_nope_head_dim,
        config.qk_rope_head_dim,
        config.v_head_dim or config.qk_nope_head_dim,
    )


def _experts(config: _Configuration) -> Experts | None:
    count = config.num_experts or config.num_local_experts or config.n_routed_experts
    ffn = config.moe_intermediate_size
    if config.model_type in _ONLY_EXPERTS:
        ffn = config.intermediate_size
    if not (count and ffn and config.num_experts_per_tok):
        return None
    gated = config.shared_expert_intermediate_size or 0
    shared = gated or (config.n_shared_experts or 0) * ffn
    biased = config.model_type == "gpt_oss"
    return Experts(count, config.num_experts_per_tok, ffn, shared, gated > 0, biased)


def _layer(config: _Configuration, number: int, experts: Experts | None) -> Layer:
    return Layer(
        window=(config.sliding_window or None) if _slides(config, number) else None,
        has_experts=experts is not None and _is_sparse(config, number),
    )


def _slides(config: _Configuration, number: int) -> bool:
    kinds = config.layer_types or ()
    if number < len(kinds):
        return kinds[number] == _SLIDING
    every = config.sliding_window_pattern or _FULL_EVERY.get(config.model_type)
    if every:
        return (number + 1) % every != 0
    if config.use_sliding_window is None:
        return True
    return config.use_sliding_window and number >= (config.max_window_layers or 0)


def _is_sparse(config: _Configuration, number: int) -> bool:
    """Whether a layer of a model with experts has them, as the model code of Transformers does."""
    if number < (config.first_k_dense_replace or 0) or number in (config.mlp_only_layers or ()):
        return False
    if config.decoder_sparse_step:
        return (number + 1) % config.decoder_sparse_step == 0
    return number % (config.moe_layer_freq or 1) == 0


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters.

    Attributes:
        active: those that one token uses: of the experts, only the chosen ones.
        embedding: the embedding and the output projection; one matrix if they are tied.
    """

    total: int
    active: int
    embedding: int


def parameters(model: Sizes) -> Parameters:
    """The parameters of a model, without layers that only train it or draft tokens."""
    embedding = model.vocabulary * model.hidden * (1 if model.tied else 2)
    total = active = embedding + model.hidden
    attention = (
        _latent_parameters(model, model.latent) if model.latent else _attention_parameters(model)
    )
    for layer in model.layers:
        shared = attention + model.norms * model.hidden
        total += shared + _feed_forward_parameters(model, layer, chosen=False)
        active += shared + _feed_forward_parameters(model, layer, chosen=True)
    return Parameters(total, active, embedding)


def _attention_parameters(model: Sizes) -> int:
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    projected = queries + 2 * keys
    bias = (projected if model.qkv_bias else 0) + (model.hidden if model.output_bias else 0)
    norms = {None: 0, "head": 2 * model.head_dim, "all heads": queries + keys}[model.qk_norm]
    sinks = model.heads if model.sinks else 0
    return model.hidden * (projected + queries) + bias + norms + sinks


def _latent_parameters(model: Sizes, latent: Latent) -> int:
    query = model.heads * (latent.nope + latent.rope)
    if latent.q_rank:
        queries = model.hidden * latent.q_rank + latent.q_rank + latent.q_rank * query
    else:
        queries = model.hidden * query
    compressed = model.hidden * (latent.kv_rank + latent.rope) + latent.kv_rank
    expanded = latent.kv_rank * model.heads * (latent.nope + latent.value)
    bias = (latent.q_rank or 0) + latent.kv_rank + latent.rope if model.qkv_bias else 0
    bias += model.hidden if model.output_bias else 0
    return queries + compressed + expanded + bias + model.heads * latent.value * model.hidden


def _feed_forward_parameters(model: Sizes, layer: Layer, *, chosen: bool) -> int:
    hidden, experts = model.hidden, model.experts
    if not (layer.has_experts and experts):
        ffn = model.ffn or 0
        return 3 * hidden * ffn + (2 * ffn + hidden if model.mlp_bias else 0)
    used = experts.top_k if chosen else experts.count
    gate = hidden if experts.shared_gate else 0
    bias = used * (2 * experts.ffn + hidden) + experts.count if experts.bias else 0
    products = 3 * hidden * (used * experts.ffn + experts.shared_ffn) + hidden * experts.count
    return products + gate + bias
