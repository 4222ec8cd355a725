"""Counts the parameters of a model; the sums are those on the cards of the models."""

from dataclasses import dataclass

from traceql.analysis.model.sizes import Experts, Latent, Layer, Sizes


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
    attention = _latent_attention(model, model.latent) if model.latent else _attention(model)
    for layer in model.layers:
        shared = attention + model.norms * model.hidden
        total += shared + _feed_forward(model, layer, chosen=False)
        active += shared + _feed_forward(model, layer, chosen=True)
    return Parameters(total, active, embedding)


def _attention(model: Sizes) -> int:
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    projected = queries + 2 * keys
    bias = (projected if model.qkv_bias else 0) + (model.hidden if model.output_bias else 0)
    norms = {None: 0, "head": 2 * model.head_dim, "all heads": queries + keys}[model.qk_norm]
    sinks = model.heads if model.sinks else 0
    return model.hidden * (projected + queries) + bias + norms + sinks


def _latent_attention(model: Sizes, latent: Latent) -> int:
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


def _feed_forward(model: Sizes, layer: Layer, *, chosen: bool) -> int:
    if layer.has_experts and model.experts:
        return _experts(model.hidden, model.experts, chosen=chosen)
    ffn = model.ffn or 0
    bias = 2 * ffn + model.hidden if model.mlp_bias else 0
    return 3 * model.hidden * ffn + bias


def _experts(hidden: int, experts: Experts, *, chosen: bool) -> int:
    used = experts.top_k if chosen else experts.count
    gate = hidden if experts.shared_gate else 0
    bias = used * (2 * experts.ffn + hidden) + experts.count if experts.bias else 0
    products = 3 * hidden * (used * experts.ffn + experts.shared_ffn) + hidden * experts.count
    return products + gate + bias
