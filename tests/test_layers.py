"""Layers and roles in letters: whole passes, and passes that something disturbed."""

import numpy as np
import pytest
from letters import by_letter, known, layer_of_kernels, layers_of, stream_of

from traceql.analysis.layers import roles
from traceql.analysis.layers.kernel_text import Int64s

# One layer of each kind as real traces have them.
COUNT = 6
LAYER = {
    "qwen3": ["ngnekacgsngvgs", "ngnnrkaegAnmgvgA"],
    "qwen3_moe": [
        "ngnekaegAngTLLeeXvXUyA",
        "ngnnrkacgngTLLeeXvXU",
        "ngnekacgsngTGLLeeXvXURy",  # data parallel: tokens gathered, results scattered
    ],
    "llama": ["ngrkagngvg", "ngrkagAngvgA"],
    "qwen2": ["ngerkagngvg", "ngerkagAngvgA"],
    "mixtral": ["ngreekagyAyngeeeTLLXXUyAy"],
}
BEFORE, AFTER = "yiyeeyiiiE", "nEmgzeezy"
KINDS = [(name, layer) for name, found in LAYER.items() for layer in found]
# Families whose layers these letters do not tell apart: gpt-oss has Mixtral's layers, and the
# elementwise kernel of Qwen2 may be a bias or prepare the rotation.
ALSO = {"qwen2": "llama", "mixtral": "gpt_oss"}

# The roles of a layer's kernels; ? where either neighbor may have it.
ROLES = {
    "ngnekacgsngvgs": """
        input_norm qkv_proj qk_norm rope kv_write attention attention o_proj o_proj
        post_attn_norm gate_up_proj act down_proj down_proj""",
    "ngnnrkaegAnmgvgA": """
        input_norm qkv_proj qk_norm qk_norm rope kv_write attention attention o_proj attn_allreduce
        post_attn_norm gate_up_proj gate_up_proj act down_proj mlp_allreduce""",
    "ngnekaegAngTLLeeXvXUyA": """
        input_norm qkv_proj qk_norm rope kv_write attention attention o_proj attn_allreduce
        post_attn_norm router topk moe_align moe_align moe_align moe_align experts_gate_up act
        experts_down moe_sum mlp_allreduce mlp_allreduce""",
    "ngnnrkacgngTLLeeXvXU": """
        input_norm qkv_proj qk_norm qk_norm rope kv_write attention attention o_proj
        post_attn_norm router topk moe_align moe_align moe_align moe_align experts_gate_up act
        experts_down moe_sum""",
    "ngnekacgsngTGLLeeXvXURy": """
        input_norm qkv_proj qk_norm rope kv_write attention attention o_proj o_proj
        post_attn_norm router topk dispatch moe_align moe_align moe_align moe_align
        experts_gate_up act experts_down moe_sum combine combine""",
    "ngrkagngvg": """
        input_norm qkv_proj rope kv_write attention o_proj
        post_attn_norm gate_up_proj act down_proj""",
    "ngrkagAngvgA": """
        input_norm qkv_proj rope kv_write attention o_proj attn_allreduce
        post_attn_norm gate_up_proj act down_proj mlp_allreduce""",
    "ngerkagngvg": """
        input_norm qkv_proj qkv_proj rope kv_write attention o_proj
        post_attn_norm gate_up_proj act down_proj""",
    "ngerkagAngvgA": """
        input_norm qkv_proj qkv_proj rope kv_write attention o_proj attn_allreduce
        post_attn_norm gate_up_proj act down_proj mlp_allreduce""",
    "ngreekagyAyngeeeTLLXXUyAy": """
        input_norm qkv_proj rope kv_write kv_write kv_write attention o_proj
        attn_allreduce attn_allreduce attn_allreduce
        post_attn_norm router ? ? ? topk moe_align moe_align experts_gate_up experts_down
        moe_sum mlp_allreduce mlp_allreduce mlp_allreduce""",
}


def pass_of(layer: str, count: int = COUNT) -> str:
    return BEFORE + layer * count + AFTER


def layers_in(layer: str, count: int = COUNT) -> Int64s:
    """The layer of each kernel of a whole pass."""
    inside = np.repeat(np.arange(count), len(layer))
    return np.concatenate([np.full(len(BEFORE), -1), inside, np.full(len(AFTER), -1)])


@pytest.mark.parametrize(("name", "layer"), KINDS)
def test_whole_passes_are_numbered_from_0(name: str, layer: str) -> None:
    stream = stream_of(pass_of(layer), pass_of(layer))
    found = layers_of(stream)
    assert (found.count, found.confirmed) == (COUNT, 2)
    assert found.number.tolist() == [*range(COUNT)] * 2
    assert found.pass_number.tolist() == [0] * COUNT + [1] * COUNT
    assert layer_of_kernels(stream).tolist() == [*layers_in(layer)] * 2


@pytest.mark.parametrize("model_type", [True, False], ids=["configured", "unconfigured"])
@pytest.mark.parametrize(("name", "layer"), KINDS)
def test_whole_passes_have_the_roles_of_their_family(
    name: str, layer: str, model_type: bool
) -> None:
    found = known(stream_of(pass_of(layer), pass_of(layer)), name if model_type else None)
    assert found.family in {name, name if model_type else ALSO.get(name)}
    assert None not in found.role
    got = by_letter(layer, found.role[len(BEFORE) : len(BEFORE) + len(layer)])
    want = by_letter(layer, ROLES[layer].split())
    same_work = {"qkv_proj": "rope"} if found.family != name else {}
    assert [
        pair for pair, (_, role) in zip(got, want, strict=True)
        if role != "?" and pair[1] not in (role, same_work.get(role or ""))
    ] == []  # fmt: skip


def test_the_family_of_a_model_that_no_family_is_for_is_unknown() -> None:
    (layer, *_) = LAYER["llama"]
    found = known(stream_of(pass_of(layer), pass_of(layer)), "chameleon")
    assert found.family is None
    assert found.layer.tolist() == [*layers_in(layer)] * 2
    of_layer = found.role[len(BEFORE) : len(BEFORE) + len(layer)]
    assert of_layer == [
        "input_norm", "qkv_proj", "rope", "kv_write", "attention", "o_proj",
        "post_attn_norm", "gate_up_proj", "act", "down_proj",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("strange", "family"), [(4, "qwen3_moe"), (12, None)], ids=["a few", "a quarter"]
)
def test_few_layers_of_another_kind_do_not_hide_the_family(
    strange: int, family: str | None
) -> None:
    usual = LAYER["qwen3_moe"][2]
    other = usual.replace("X", "A")  # kernels that no layer of the family has in this place
    found = roles.family({usual: 48 - strange, other: strange}, "qwen3_moe")
    assert (found and found.name) == family


def test_two_passes_in_one_step_are_two() -> None:
    one = LAYER["qwen3"][0] * COUNT
    first, second = BEFORE + one + AFTER, BEFORE + one + "nEmgz" + one + AFTER
    found = layers_of(stream_of(first, second))
    assert found.number.tolist() == [*range(COUNT)] * 3
    assert len(set(found.pass_number.tolist())) == 3


def test_a_pipeline_stage_gathers_activations_from_all_tensor_parallel_ranks() -> None:
    layer = LAYER["qwen3"][1]
    text = "yeeyiiiiiyeGGyy" + layer * COUNT + AFTER
    found = layers_of(stream_of(text, text))
    assert found.number.tolist() == [*range(COUNT)] * 2


def test_no_whole_pass_means_no_layers() -> None:
    cut = pass_of(LAYER["qwen3"][0])[len(BEFORE) + 20 : -len(AFTER) - 20]
    assert not len(layers_of(stream_of(cut)).number)
