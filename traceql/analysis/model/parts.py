"""What each part of a model does on one rank: FLOPs, weights and activations per row.

A row is a token, except in the output projection: there, it is a row that logits are wanted of.
The formulas are those of docs/definitions.md, section "Speed of light".
"""

from collections.abc import Iterator
from typing import NamedTuple

from traceql.analysis.model.sizes import Experts, Layer, Sizes
from traceql.analysis.model.weights import Format, Formats

_PADDED_TO = 64  # vLLM pads the vocabulary to a multiple
TOKENS, LOGITS = "tokens", "logit_rows"
_QUERIES = ("self_attn.qkv_proj", "self_attn.q_proj", "self_attn.q_a_proj")


class Part(NamedTuple):
    """One role of one layer on one rank: a tuple, as a model has thousands.

    Attributes:
        layer: model layer, from 0; None outside layers.
        rows: what it has one row for, tokens or logit_rows.
        context_pair: FLOPs per pair of a query and a key of a prompt.
        generation_pair: the same of a request that generates.
        weight_bytes: of all its weights; of all experts that the rank holds; None if unknown.
        gathered: bytes of weights that each row reads, which is one row of the embedding.
        kv_read: elements of the KV cache that are read per token in it.
        kv_written: elements of the KV cache that are written per row.
        tensors: bytes per row of each activation that it reads or writes.
        window: tokens that its attention sees at most; None without a limit.
        experts: number of experts of the model, of which each row uses `top_k`.
        missing: why the bytes of the weights are unknown.
    """

    role: str
    layer: int | None
    formula: str
    dtype: str | None
    rows: str = TOKENS
    flops_per_row: int = 0
    context_pair: int = 0
    generation_pair: int = 0
    weight_bytes: float | None = 0.0
    gathered: int = 0
    kv_read: int = 0
    kv_written: int = 0
    tensors: tuple[int, ...] = ()
    window: int | None = None
    experts: int | None = None
    top_k: int | None = None
    missing: str | None = None


def parts(model: Sizes, formats: Formats, tp: int) -> Iterator[Part]:
    """The parts of a model whose tensors are split over `tp` ranks.

    Expert parallelism without data parallelism has the same sums: whole experts, of which each rank
    has its share, instead of a share of each. A size that `tp` does not divide is rounded up, as
    the rank with the largest share has it.
    """
    plain = formats.plain
    width, hidden = plain.input_bytes, model.hidden
    vocabulary = _share(padded_vocabulary(model), tp)
    row = hidden * width
    yield Part("embed", None, "gather", plain.dtype, gathered=row, tensors=(row,))
    for number, layer in enumerate(model.layers):
        yield from _layer(model, formats, number, layer, tp)
    yield Part("final_norm", None, "activations", plain.dtype, tensors=(row,) * 4)
    yield _product("lm_head", None, [(hidden, vocabulary)], plain, width, rows=LOGITS)


def padded_vocabulary(model: Sizes) -> int:
    """Rows of the embedding and of the output projection, as vLLM keeps them."""
    return -(-model.vocabulary // _PADDED_TO) * _PADDED_TO


def _share(size: int, tp: int) -> int:
    return -(-size // tp)


def _layer(model: Sizes, formats: Formats, number: int, layer: Layer, tp: int) -> Iterator[Part]:
    width, dtype = formats.plain.input_bytes, formats.plain.dtype
    norms = ("input_norm", "post_attn_norm", "pre_mlp_norm", "post_mlp_norm")[: model.norms]
    feeding = _fed_by_norms(model, formats, number, layer)
    for role in norms:
        # Reads and writes the input and the residual, which the first norm does not have yet.
        wide = (model.hidden * width,) * (1 if (number, role) == (0, norms[0]) else 3)
        tensors = (*wide, model.hidden * feeding.get(role, width))
        yield Part(role, number, "activations", dtype, tensors=tensors)
    yield from _attention(model, formats, number, layer, tp)
    if layer.has_experts and model.experts:
        yield from _experts(model, model.experts, formats, number, tp)
    elif model.ffn:
        yield from _mlp(model.hidden, _share(model.ffn, tp), formats, number, "mlp")


def _fed_by_norms(model: Sizes, formats: Formats, number: int, layer: Layer) -> dict[str, int]:
    """The width of a product's input, by the norm that writes it; the router's is not quantized."""
    queries = formats.of(formats.linear, number, *_QUERIES)
    found = {"input_norm": queries.input_bytes}
    if not layer.has_experts:
        before_mlp = "post_attn_norm" if model.norms == 2 else "pre_mlp_norm"
        found[before_mlp] = formats.of(formats.linear, number, *_gate_up("mlp")).input_bytes
    return found


def _gate_up(*blocks: str) -> list[str]:
    return [f"{block}.{name}" for block in blocks for name in ("gate_up_proj", "gate_proj")]


def _attention(
    model: Sizes, formats: Formats, number: int, layer: Layer, tp: int
) -> Iterator[Part]:
    """Attention with grouped queries, or DeepSeek's with latent keys and values.

    The latter expands the keys of prompts, and generates with the latent ones.
    """
    width, dtype, hidden = formats.plain.input_bytes, formats.plain.dtype, model.hidden
    heads, latent = _share(model.heads, tp), model.latent
    output = formats.of(formats.linear, number, "self_attn.o_proj")
    if latent:
        query, value = heads * (latent.nope + latent.rope), heads * latent.value
        # Those down to a rank are on all ranks.
        cached, of_rank = latent.kv_rank + latent.rope, latent.q_rank
        projected = [(hidden, query), (hidden, cached)]
        if of_rank is not None:
            projected = [(hidden, of_rank + cached), (of_rank, query)]
        normed: tuple[int, ...] = ((latent.kv_rank + (of_rank or 0)) * width,) * 2
        rotated = ((heads + 1) * latent.rope * width,) * 2
        context, generation = 2 * (query + value), 2 * heads * (cached + latent.kv_rank)
    else:
        # More ranks than KV heads: each rank has a whole one.
        query = value = heads * model.head_dim
        key = _share(model.kv_heads, tp) * model.head_dim
        cached, projected = 2 * key, [(hidden, query + 2 * key)]
        rotated = ((query + key) * width,) * 2
        # Compiled, it reads alone, and the kernel of rope writes.
        normed = rotated[:1] if model.qk_norm else ()
        context = generation = 4 * query
    narrow = formats.of(formats.linear, number, *_QUERIES)
    yield _product("qkv_proj", number, projected, narrow, width)
    if normed:
        yield Part("qk_norm", number, "activations", dtype, tensors=normed)
    yield Part("rope", number, "activations", dtype, tensors=rotated)
    yield Part("kv_write", number, "kv_write", dtype, kv_written=cached, tensors=(cached * width,))
    if latent:
        # Generation multiplies queries and outputs by the same weights, with as many FLOPs.
        narrow = formats.of(formats.linear, number, "self_attn.kv_b_proj")
        expanded = [(latent.kv_rank, heads * (latent.nope + latent.value))]
        yield _product("kv_b_proj", number, expanded, narrow, width)
    yield Part(
        "attention",
        number,
        "latent_attention" if latent else "attention",
        dtype,
        context_pair=context,
        generation_pair=generation,
        kv_read=cached,
        tensors=(query * width, value * output.input_bytes),
        window=layer.window,
    )
    yield _product("o_proj", number, [(value, hidden)], output, width)


def _mlp(hidden: int, ffn: int, formats: Formats, number: int, *blocks: str) -> Iterator[Part]:
    width, dtype = formats.plain.input_bytes, formats.plain.dtype
    narrow = formats.of(formats.linear, number, *_gate_up(*blocks))
    yield _product("gate_up_proj", number, [(hidden, 2 * ffn)], narrow, width)
    narrow = formats.of(formats.linear, number, *(f"{block}.down_proj" for block in blocks))
    tensors = (2 * ffn * width, ffn * narrow.input_bytes)
    yield Part("act", number, "activations", dtype, tensors=tensors)
    yield _product("down_proj", number, [(ffn, hidden)], narrow, width)


def _experts(
    model: Sizes, experts: Experts, formats: Formats, number: int, tp: int
) -> Iterator[Part]:
    plain, hidden = formats.plain, model.hidden
    width = plain.input_bytes
    yield _product("router", number, [(hidden, experts.count)], plain, width)  # on every rank
    tensors: tuple[int, ...] = (experts.count * width,)
    yield Part("topk", number, "activations", plain.dtype, tensors=tensors)
    yield Part("moe_align", number, "activations", plain.dtype)  # indices alone
    ffn = _share(experts.ffn, tp)
    rows = experts.top_k
    narrow = formats.of(formats.experts, number, "mlp.experts")
    for role, inner, outer in (
        ("experts_gate_up", hidden, 2 * ffn),
        ("experts_down", ffn, hidden),
    ):
        yield Part(
            role,
            number,
            "experts",
            narrow.dtype,
            flops_per_row=2 * rows * inner * outer,
            weight_bytes=_bytes(experts.count * inner * outer, narrow),
            tensors=(rows * inner * width, rows * outer * width),
            experts=experts.count,
            top_k=rows,
            missing=narrow.missing,
        )
    tensors = (rows * hidden * width, hidden * width)
    yield Part("moe_sum", number, "activations", plain.dtype, tensors=tensors)
    tensors = (rows * 2 * ffn * width, rows * ffn * width)
    if not experts.shared_ffn:
        yield Part("act", number, "activations", plain.dtype, tensors=tensors)
        return
    blocks = ("mlp.shared_experts", "mlp.shared_expert")
    for part in _mlp(hidden, _share(experts.shared_ffn, tp), formats, number, *blocks):
        if part.role == "act":
            both = tensors + part.tensors
            yield Part("act", number, "activations", plain.dtype, tensors=both)
        else:
            yield part
    if experts.shared_gate:
        yield _product("shared_gate", number, [(hidden, 1)], plain, width)


def _product(
    role: str,
    layer: int | None,
    matrices: list[tuple[int, int]],
    operands: Format,
    width: int,
    rows: str = TOKENS,
) -> Part:
    """Products of rows with matrices of inner x outer elements (2 FLOPs for each and row)."""
    elements = sum(inner * outer for inner, outer in matrices)
    tensors = [
        n for inner, outer in matrices for n in (inner * operands.input_bytes, outer * width)
    ]
    return Part(
        role,
        layer,
        "product",
        operands.dtype,
        rows=rows,
        flops_per_row=2 * elements,
        weight_bytes=_bytes(elements, operands),
        tensors=tuple(tensors),
        missing=operands.missing,
    )


def _bytes(elements: int, operands: Format) -> float | None:
    return None if operands.weight_bytes is None else elements * operands.weight_bytes
