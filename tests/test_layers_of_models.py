"""Layers and roles of recordings of many models: against their modules and their code in vLLM."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from recorded_layers import Kernel, kernels, model_of
from recordings import Recording, layers_by_module, modules_of_activities, recordings

from traceql.analysis.layers.roles import families, roles

MODEL_TYPES = {one for family in families() for one in family.model_types}
QUICK = {"gemma2-eager", "deepseekv2-graph"}
# Its layers of an MLP alone write nothing that could tell one from the next.
UNRECOGNIZED = "nemotron_h"


def params(some: Iterable[Recording]) -> list[Any]:
    """Recordings as parameters: a few are quick."""
    found = []
    for one in some:
        marks = [] if one.name in QUICK else [pytest.mark.slow]
        found.append(pytest.param(one, id=one.name, marks=marks))
    return found


EAGER, GRAPH = recordings("eager"), recordings("graph")
OF_FAMILIES = [one for one in recordings() if one.model_type in MODEL_TYPES]
# Models that are alone in their family, or nearly so.
RARE = {
    "cohere", "ernie4_5_moe", "exaone4", "falcon_h1", "glm4", "granite", "jamba", "kimi_linear",
    "lfm2", "llama4_text", "minimax_m2", "olmo2",
}  # fmt: skip
OF_RARE_FAMILY = [one for one in EAGER if one.model_type in RARE]


@pytest.mark.parametrize("recording", params(EAGER))
def test_layers_are_those_of_the_modules(recording: Recording) -> None:
    truth, found = layers_by_module(recording), kernels(recording)
    wrong = [one for one in found if one.layer not in (None, truth[one.place])]
    assert wrong == []
    if recording.model_type != UNRECOGNIZED:
        assert model_of(recording)[1] == recording.layers
        inside = sum(one.dur for one in found if truth[one.place] is not None)
        right = sum(one.dur for one in found if one.layer is not None)
        assert right >= 0.995 * inside > 0


@pytest.mark.parametrize("recording", params(GRAPH))
def test_passes_have_all_layers(recording: Recording) -> None:
    assert model_of(recording)[1] == recording.layers
    in_pass = defaultdict(set)
    for one in kernels(recording):
        if one.pass_number is not None:
            in_pass[one.pass_number].add(one.layer)
    # The recording may begin or end within a pass.
    inner = [layers for number, layers in in_pass.items() if 0 < number < max(in_pass)]
    assert inner
    assert all(layers == {*range(recording.layers)} for layers in inner)


@pytest.mark.slow
@pytest.mark.parametrize("recording", params(one for one in GRAPH if one.model_type in MODEL_TYPES))
def test_nearly_all_time_of_known_models_has_a_role(recording: Recording) -> None:
    found = kernels(recording, configured=True)
    ran_model = {one.step_id for one in found if one.layer is not None}
    of_model = [one for one in found if one.step_id in ran_model]
    known = sum(one.dur for one in of_model if one.layer is not None or one.role is not None)
    assert known >= 0.99 * sum(one.dur for one in of_model) > 0
    inside = [one for one in found if one.layer is not None]
    named = sum(one.dur for one in inside if one.role is not None)
    assert named >= 0.99 * sum(one.dur for one in inside) > 0


# --- what a layer must have, as read in vLLM's source ------------------------------------------

ATTENTION = {"input_norm", "qkv_proj", "kv_write", "attention", "o_proj", "post_attn_norm"}
MLP = {"gate_up_proj", "act", "down_proj"}
EXPERTS = {"router", "topk", "moe_align", "experts_gate_up", "experts_down", "moe_sum"}
NORMED = {
    "qwen3", "qwen3_moe", "gemma3_text", "qwen3_next", "deepseek_v2", "deepseek_v3", "minimax_m2",
    "lfm2", "llama4_text",
}  # fmt: skip
BETWEEN_NORMS = {"gemma2", "gemma3_text", "glm4"}
BEFORE_NORMS = {"olmo2", "exaone4"}  # norms behind attention and the MLP alone
# Kernels that do the work of a role of which a layer has one: (role, symbols).
ONCE = (
    ("kv_write", "k"), ("o_proj", "g"), ("router", "g"), ("experts_gate_up", "X"),
    ("experts_down", "X"), ("gate_up_proj", "g"), ("down_proj", "g"), ("moe_sum", "U"),
)  # fmt: skip


def has_experts(config: dict[str, Any], layer: int) -> bool:
    if config.get("model_type") == "ernie4_5_moe":
        return layer >= 1  # by default, of which config.json has none
    if not config.get("num_experts_per_tok", config.get("num_experts_per_token")):
        return False
    if "expert_layer_period" in config:  # Jamba
        return bool(layer % config["expert_layer_period"] == config["expert_layer_offset"])
    if "moe_layers" in config:  # Llama 4
        return layer in config["moe_layers"]
    every = config.get("decoder_sparse_step", 1)  # Qwen
    only = layer not in config.get("mlp_only_layers", []) and (layer + 1) % every == 0
    return only and layer >= config.get("first_k_dense_replace", 0)  # DeepSeek, GLM


def shared_expert(config: dict[str, Any]) -> set[str]:
    """The roles of an expert that serves all tokens; only Qwen's has a gate."""
    if (
        config.get("n_shared_experts")
        or config.get("num_shared_experts")
        or config.get("model_type") in ("llama4_text", "ernie4_5_moe")
    ):
        return MLP
    return MLP | {"shared_gate"} if config.get("shared_expert_intermediate_size") else set()


def roles_of_layer(recording: Recording, layer: int) -> tuple[set[str], set[str]]:
    """The roles that a layer must have, and those that it may have besides."""
    config, model_type = recording.config, recording.model_type
    needed, allowed = {*ATTENTION}, {"rope"}
    if config.get("layer_types", [""] * recording.layers)[layer] == "linear_attention":
        needed = needed - {"kv_write"} | {"conv", "attn_norm"}
    elif config.get("layer_types", [""] * recording.layers)[layer] == "conv":  # LFM2
        needed = needed - {"kv_write", "attention"} | {"conv"}
    elif (
        model_type == "jamba" and layer % config["attn_layer_period"] != config["attn_layer_offset"]
    ):
        needed = needed - {"kv_write"} | {"conv", "qk_norm"}
    elif model_type == "kimi_linear" and layer + 1 in config["linear_attn_config"]["kda_layers"]:
        needed = needed - {"kv_write"} | {"conv", "attn_norm"}
        allowed.add("qk_norm")
    elif model_type == "kimi_linear":
        needed |= {"kv_b_proj", "qk_norm"}
    elif model_type == "falcon_h1":
        needed |= {"conv", "attn_norm"}
    elif model_type == "cohere":
        needed -= {"post_attn_norm"}
    elif model_type in BEFORE_NORMS:
        needed = needed - {"input_norm"} | {"qk_norm"}
        (needed if recording.mode == "eager" else allowed).add("post_mlp_norm")
    elif model_type in NORMED and config.get("no_rope_layers", [1] * recording.layers)[layer]:
        (needed if recording.mode == "eager" else allowed).add("qk_norm")
    if model_type.startswith("deepseek"):
        needed.add("kv_b_proj")
    if model_type in BETWEEN_NORMS:
        (needed if recording.mode == "eager" else allowed).update(("pre_mlp_norm", "post_mlp_norm"))
    if has_experts(config, layer):
        needed |= EXPERTS | shared_expert(config)
        allowed.add("act")
    else:
        needed |= MLP
    return needed, allowed


@pytest.mark.slow
@pytest.mark.parametrize("recording", params(OF_FAMILIES))
def test_layers_of_known_models_have_the_roles_of_their_code(recording: Recording) -> None:
    family, _ = model_of(recording, configured=True)
    (own,) = (one.name for one in families() if recording.model_type in one.model_types)
    assert family == own
    problems = Counter[str]()
    for (_, layer), of_layer in by_layer(kernels(recording, configured=True)).items():
        roles = {one.role for one in of_layer if one.role is not None}
        needed, allowed = roles_of_layer(recording, layer)
        problems[f"layer {layer} lacks {sorted(needed - roles)}"] += not needed <= roles
        extra = sorted(roles - needed - allowed)
        problems[f"layer {layer} has {extra}"] += bool(extra)
        for role, symbols in ONCE:
            count = sum(one.role == role and one.symbol in symbols for one in of_layer)
            # Of attention, and of the state-space model beside it.
            times = 2 if role == "o_proj" and recording.model_type == "falcon_h1" else 1
            problems[f"layer {layer} has {count} {role}"] += count != times * (role in needed)
    assert +problems == Counter()


def by_layer(found: Iterable[Kernel]) -> dict[tuple[int, int], list[Kernel]]:
    """The kernels of each layer of each pass, by pass and layer."""
    layers: defaultdict[tuple[int, int], list[Kernel]] = defaultdict(list)
    for one in found:
        if one.pass_number is not None and one.layer is not None:
            layers[one.pass_number, one.layer].append(one)
    return layers


# --- roles that the names of modules tell -------------------------------------------------------

SHARED = r"experts\._shared_experts"
# Module within its layer, symbols of its kernels, and their roles in order; order decides between
# two rows. Several roles: the first kernel of a layer has the first one.
ROLE_OF_MODULE = [
    (r"(input_layernorm|operator_norm)$", ".", "input_norm"),
    (r"^(self_attn|attn)\.(qkv_proj|mla_attn\.fused_qkv_a_proj)$", ".", "qkv_proj"),
    (r"^self_attn\.[qk]_norm$", ".", "qk_norm"),
    (r"^(self_attn|attn)$", "r", "rope"),
    (r"^((self_)?attn\.)?attn$", "k", "kv_write"),
    (r"^((self_)?attn\.)?attn$", "[ac]", "attention"),
    (r"^(self_attn\.|attn\.)?(o_proj|out_proj)$", ".", "o_proj"),
    (r"mla_attn\.mla_attn$", "k", "kv_write"),
    (r"mla_attn\.mla_attn$", "[ac]", "attention"),
    (r"mla_attn\.mla_attn$", "[gs]", "kv_b_proj"),
    (r"mla_attn$", "n", "qk_norm"),
    (r"mla_attn$", "r", "rope"),
    (r"mla_attn$", "[gsq]", "qkv_proj|o_proj"),
    (r"^linear_attn\.in_proj", "[gs]", "qkv_proj"),
    (r"^linear_attn$", "[uw]", "conv"),
    (r"^(linear_attn\.chunk_gated_delta_rule|linear_attn)$", "a", "attention"),
    (r"^linear_attn\.norm$", "n", "attn_norm"),
    (r"^(linear_attn|mamba|mamba\.mamba|short_conv)\.out_proj$", "[gs]", "o_proj"),
    (r"^mamba(\.mamba)?\.(in|x|dt)_proj$|^short_conv\.in_proj$", "[gs]", "qkv_proj"),
    (r"^(mamba|mamba\.mamba|short_conv|self_attn)$", "[uw]", "conv"),
    (r"^(mamba|mamba\.mamba|self_attn)$", "a", "attention"),
    (r"^mamba\.(b|c|dt)_layernorm$", "n", "qk_norm"),
    (r"^mamba\.mamba\.norm$|^self_attn\.o_norm$", "[nv]", "attn_norm"),
    (r"^self_attn\.([qkvb]|[fg]_[ab])_proj$", "[gs]", "qkv_proj"),
    (r"^self_attn\.[qk]_layernorm$", "n", "qk_norm"),
    (r"^(pre_ff_layernorm|ffn_norm)$", ".", "post_attn_norm"),
    # The experts of Kimi Linear have no module of their own.
    (r"^model\.layers\.\d+$", "T", "topk"),
    (r"^model\.layers\.\d+$", "X", ["experts_gate_up", "experts_down"]),
    (r"^model\.layers\.\d+$", "U", "moe_sum"),
    (r"^post_attention_layernorm$", ".", "post_attn_norm"),
    (r"^pre_feedforward_layernorm$", ".", "pre_mlp_norm"),
    (r"^post_feedforward_layernorm$", ".", "post_mlp_norm"),
    (r"^(mlp|feed_forward)\.(gate_up_proj|w13)$", ".", "gate_up_proj"),
    (r"^(mlp|feed_forward)\.act_fn$", "v", "act"),
    (r"^mlp$", "v", "act"),
    (r"^(mlp|feed_forward)\.(down_proj|w2)$", ".", "down_proj"),
    (rf"{SHARED}$", "v", "act"),
    (rf"{SHARED}$", "g", ["gate_up_proj", "down_proj", "shared_gate"]),
    (rf"{SHARED}$", "[sq]", "gate_up_proj|down_proj|shared_gate"),
    (r"(gate|router)$", "[gsm]", "router"),
    (r"experts$", "g", "router"),
    (r"experts", "[Tz]", "topk"),
    (r"experts", "L", "moe_align|topk"),
    (r"experts", "X", ["experts_gate_up", "experts_down"]),
    (r"experts", "v", "act"),
    (r"experts", "U", "moe_sum"),
]
# GLM-4 has four norms per layer, which other models name in another way.
RENAMED = {
    "post_self_attn_layernorm": "post_attention_layernorm",
    "post_attention_layernorm": "pre_feedforward_layernorm",
    "post_mlp_layernorm": "post_feedforward_layernorm",
}
IN_EXPERTS = re.compile("moe_|experts_|topk|router|dispatch|combine")


def judged(recording: Recording, *, configured: bool) -> Iterator[tuple[Kernel, str, str]]:
    """Kernels in layers whose module tells the role: with the module and a pattern of the role."""
    modules = modules_of_activities(recording)
    for of_layer in by_layer(kernels(recording, configured=configured)).values():
        rank = Counter[tuple[str, str]]()
        for one in of_layer:
            module = re.sub(r"^.*?\.layers\.\d+\.", "", (modules[one.place] or [""])[-1])
            if recording.model_type == "glm4":
                module = RENAMED.get(module, module)
            for pattern, symbols, role in ROLE_OF_MODULE:
                if re.search(pattern, module) and re.fullmatch(symbols, one.symbol):
                    rank[pattern, symbols] += 1
                    roles = [role] if isinstance(role, str) else role
                    yield one, module, roles[min(rank[pattern, symbols], len(roles)) - 1]
                    break


@pytest.mark.slow
@pytest.mark.parametrize(
    "recording",
    params(one for one in EAGER if one.model_type in MODEL_TYPES),
)
def test_roles_are_those_of_the_modules(recording: Recording) -> None:
    total = wrong = 0
    confused = Counter[tuple[str, str, str | None, str]]()
    for one, module, role in judged(recording, configured=True):
        total += one.dur
        if not re.fullmatch(role, one.role or ""):
            wrong += one.dur
            confused[module, one.symbol, one.role, role] += one.dur
    inside = sum(one.dur for one in kernels(recording, configured=True) if one.layer is not None)
    # A quarter of Falcon-H1's time is multiplications by constants, which have no module.
    assert total >= 0.75 * inside
    assert wrong <= 0.01 * total, confused


def by_place(recording: Recording) -> dict[Kernel, str | None]:
    """The roles of kernels in layers if no family had the model."""
    found: dict[Kernel, str | None] = {}
    for of_layer in by_layer(kernels(recording)).values():
        main = Counter(one.stream for one in of_layer).most_common(1)[0][0]
        on_main = [one for one in of_layer if one.stream == main]
        text = "".join(one.symbol for one in on_main)
        found |= dict(zip(on_main, roles(text, None), strict=True))
    return found


@pytest.mark.parametrize("known", ["family", "nothing"])
@pytest.mark.parametrize("recording", params(OF_RARE_FAMILY))
def test_roles_of_unnamed_models_are_right_or_unknown(recording: Recording, known: str) -> None:
    total = wrong = 0
    confused = Counter[tuple[str, str, str | None, str]]()
    without_family = by_place(recording) if known == "nothing" else {}
    for one, module, role in judged(recording, configured=False):
        total += one.dur
        found = without_family.get(one, one.role)
        if found is not None and not re.fullmatch(role, found):
            wrong += one.dur
            confused[module, one.symbol, found, role] += one.dur
    assert wrong <= 0.01 * total, confused
    modules = modules_of_activities(recording)
    for one in kernels(recording):
        module = (modules[one.place] or ["layers"])[-1]
        if one.layer is not None and not re.search(
            r"experts|router|gate|mlp$|layers(\.\d+)?$", module
        ):
            assert not IN_EXPERTS.match(one.role or ""), (module, one)
