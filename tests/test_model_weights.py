"""How wide the operands of products are, by the quantization that a configuration states."""

from typing import Any

import pytest
from published_models import PUBLISHED, built_in

from traceql.analysis.model.parts import Part, parts
from traceql.analysis.model.sizes import Sizes, sizes
from traceql.analysis.model.weights import Formats, formats
from traceql.database.loading.inputs import described_model

QWEN3 = dict(built_in())["qwen3-8b"]
GPT_OSS = next(one.config for one in PUBLISHED if one.name == "gpt-oss-20b")
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
INT4 = {"num_bits": 4, "type": "int", "group_size": 128}


def parts_of(
    config: dict[str, Any],
    stated: dict[str, Any] | None = None,
    *,
    dtype: str | None = None,
    quantization: str | None = None,
) -> dict[tuple[int | None, str], Part]:
    config = config | ({"quantization_config": stated} if stated else {})
    stored = formats(config, dtype, quantization)
    model = sizes(config)
    assert isinstance(stored, Formats)
    assert isinstance(model, Sizes)
    return {(part.layer, part.role): part for part in parts(model, stored, 1)}


def bytes_each(part: Part) -> float | None:
    """Bytes of one element of the weights."""
    elements = part.flops_per_row // 2 * (part.experts or 1) // (part.top_k or 1)
    return None if part.weight_bytes is None else part.weight_bytes / elements


def compressed(weights: dict[str, Any], inputs: dict[str, Any] | None = None) -> dict[str, Any]:
    group = {"weights": weights, "input_activations": inputs, "targets": ["Linear"]}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("quantization", "each", "dtype"),
    [
        (None, 2, "bf16"),
        (FP8, 1 + 4 / 128**2, "fp8"),
        ({"quant_method": "fp8"}, 1, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.5 + 2.5 / 128, "bf16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 1, "bf16"),
        (compressed({"num_bits": 8, "type": "float"}, {"num_bits": 8}), 1, "fp8"),
        (compressed({"num_bits": 8, "type": "int"}, {"num_bits": 8}), 1, "int8"),
        (compressed(INT4), 0.5 + 2 / 128, "bf16"),
        (compressed({"num_bits": 4, "type": "float", "group_size": 16}), 0.5 + 1 / 16, "bf16"),
    ],
)
def test_weights_are_as_wide_as_stated(
    quantization: dict[str, Any] | None, each: float, dtype: str
) -> None:
    found = parts_of(QWEN3, quantization)
    for role in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj"):
        part = found[3, role]
        assert (bytes_each(part), part.dtype, part.missing) == (each, dtype, None)
    output = found[None, "lm_head"]
    assert (bytes_each(output), output.dtype) == (2, "bf16")


@pytest.mark.parametrize(
    ("quantization", "missing"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
        ({"bits": 4}, "of an unnamed method"),
        ({"quant_method": "awq"}, "awq without bits or group_size"),
        ({"quant_method": "gptq", "bits": "4", "group_size": [1]}, "gptq without bits"),
        (compressed({"num_bits": 4}, {"num_bits": 4}), "with inputs of 4 bits"),
        (FP8 | {"ignore": ["re:.*layers.(1|2).mlp"]}, "leaves out modules by a pattern"),
    ],
)
def test_bytes_of_an_unknown_quantization_are_unknown(
    quantization: dict[str, Any], missing: str
) -> None:
    found = parts_of(QWEN3, quantization)
    part = found[3, "down_proj"]
    assert (part.weight_bytes, part.dtype) == (None, None)
    assert part.flops_per_row == 2 * 12288 * 4096
    assert missing in (part.missing or "")
    assert found[None, "lm_head"].weight_bytes == 2 * 4096 * 151_936
    assert found[3, "attention"].missing is None


@pytest.mark.parametrize(
    ("key", "names", "wide"),
    [
        ("modules_to_not_convert", ["model.layers.3.mlp.down_proj"], {(3, "down_proj")}),
        ("ignored_layers", ["model.layers.3.mlp"], {(3, "gate_up_proj"), (3, "down_proj")}),
        ("ignore", ["re:.*layers\\.3\\.self_attn.*"], {(3, "qkv_proj"), (3, "o_proj")}),
        ("ignore", ["model.layers.3*o_proj"], {(3, "o_proj"), (30, "o_proj")}),
        ("ignore", ["language_model.model.layers.3.self_attn.o_proj"], {(3, "o_proj")}),
        ("ignore", ["vision_tower.layers.3.self_attn.o_proj"], set()),
        ("ignore", [None, 7, "q_proj"], {(3, "qkv_proj"), (30, "qkv_proj")}),
    ],
)
def test_what_is_left_out_is_not_quantized(
    key: str, names: list[Any], wide: set[tuple[int, str]]
) -> None:
    found = parts_of(QWEN3, FP8 | {key: names})
    products = {
        (layer, role): part.dtype
        for (layer, role), part in found.items()
        if layer in (3, 30) and part.formula == "product"
    }
    assert {place for place, dtype in products.items() if dtype == "bf16"} == wide


@pytest.mark.parametrize("method", ["mxfp4", "gpt_oss_mxfp4"], ids=["stored", "loaded by vLLM"])
def test_only_experts_of_gpt_oss_are_mxfp4(method: str) -> None:
    found = parts_of(GPT_OSS, {"quant_method": method})
    assert bytes_each(found[0, "experts_down"]) == 0.5 + 1 / 32
    assert bytes_each(found[0, "qkv_proj"]) == bytes_each(found[0, "router"]) == 2


def test_what_comes_before_a_quantized_product_writes_narrow_numbers() -> None:
    """Qwen3-8B: 4,096 wide, 12,288 in the MLP; one byte of fp8 for two of bf16."""
    found = parts_of(QWEN3, FP8)
    assert found[1, "act"].tensors == (2 * 12_288 * 2, 12_288)
    assert found[1, "down_proj"].tensors == (12_288, 4096 * 2)
    assert found[1, "attention"].tensors == (4096 * 2, 4096)
    assert found[0, "input_norm"].tensors == (4096 * 2, 4096)
    assert found[1, "post_attn_norm"].tensors == (4096 * 2, 4096 * 2, 4096 * 2, 4096)
    assert found[None, "final_norm"].tensors == (4096 * 2,) * 4


def test_the_engine_may_quantize_what_is_stored_wide() -> None:
    assert parts_of(QWEN3, quantization="fp8")[0, "o_proj"].dtype == "fp8"
    assert parts_of(QWEN3, quantization="bitsandbytes")[0, "o_proj"].weight_bytes is None
    assert bytes_each(parts_of(QWEN3, dtype="float32")[0, "o_proj"]) == 4


def test_an_unknown_dtype_is_missing() -> None:
    found = formats(QWEN3 | {"dtype": "float8", "torch_dtype": "float8"}, None, None)
    assert isinstance(found, str)
    assert found.startswith("dtype of the model")


def test_a_model_of_text_and_images_is_its_decoder() -> None:
    text = {name: value for name, value in QWEN3.items() if name not in ("dtype", "torch_dtype")}
    wrapper = {
        "audio_config": {"model_type": "ear", "num_hidden_layers": 2},
        "model_type": "seeing", "dtype": "bfloat16", "quantization_config": FP8,
        "text_config": text,
        "vision_config": {"model_type": "eye", "num_hidden_layers": 3},
    }  # fmt: skip
    found = described_model({"run": {"model_config": wrapper}})
    assert found
    assert parts_of(found[1])[0, "o_proj"].dtype == "fp8"
