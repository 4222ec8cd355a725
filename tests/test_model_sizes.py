"""The sizes that follow from a model's configuration, and what keeps them unknown."""

from decimal import Decimal
from typing import Any

import pytest
from published_models import PUBLISHED, QWEN3, Published, built_in

from traceql.analysis.model.parts import Part, parts
from traceql.analysis.model.sizes import Sizes, parameters, sizes
from traceql.analysis.model.weights import Formats, formats

MODELS = dict(built_in()) | {one.name: one.config for one in PUBLISHED}
QWEN3_8B = MODELS["qwen3-8b"]
GPT_OSS = MODELS["gpt-oss-20b"]


def model(config: dict[str, Any]) -> Sizes:
    found = sizes(config)
    assert isinstance(found, Sizes), found
    return found


def in_billions(number: int, like: str) -> str:
    """The number with as many decimals as the published one."""
    return str((Decimal(number) / 10**9).quantize(Decimal(like)))


@pytest.mark.parametrize("published", PUBLISHED, ids=str)
def test_parameters_are_those_of_the_card(published: Published) -> None:
    found = parameters(model(published.config))
    assert in_billions(found.total, published.total) == published.total
    if published.active:
        assert in_billions(found.active, published.active) == published.active


@pytest.mark.parametrize("name", QWEN3)
def test_built_in_models_have_the_parameters_of_their_cards(name: str) -> None:
    found = parameters(model(MODELS[name]))
    numbers = (found.total, found.active, found.total - found.embedding)
    assert tuple(map(in_billions, numbers, QWEN3[name])) == QWEN3[name]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model_type": "llama5"}, "the sizes of model type llama5 are not known"),
        ({"num_attention_heads": 0}, "$.num_attention_heads"),
        ({"vocab_size": None}, "the model configuration has no vocab_size"),
        ({"num_hidden_layers": 10**9}, "$.num_hidden_layers"),
        ({"layer_types": ["linear_attention", "full_attention"]},
         "the sizes of layers of type linear_attention are not known"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_configuration_is_named(change: dict[str, Any], expected: str) -> None:
    found = sizes(QWEN3_8B | change)
    assert isinstance(found, str)
    assert expected in found


def test_what_is_absent_may_be_stated_as_zero_or_null() -> None:
    absent = {"num_experts": 0, "num_local_experts": None, "sliding_window": 0}
    assert sizes(QWEN3_8B | absent) == sizes(QWEN3_8B)


def test_the_head_dimension_is_the_stated_one() -> None:
    assert model(MODELS["qwen3-30b-a3b"]).head_dim == 128  # hidden size / heads is 64
    assert model(MODELS["Mixtral-8x7B"]).head_dim == 128  # not stated


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        (MODELS["gemma-2-9b"], [4096, None, 4096, None]),
        (MODELS["gemma-3-1b"], [4096, 4096, 4096, 4096, 4096, None, 4096]),
        (MODELS["gemma-3-1b"] | {"sliding_window_pattern": 2}, [4096, None, 4096]),
        (GPT_OSS, [128, None, 128]),
        (GPT_OSS | {"layer_types": ["full_attention"] * 2}, [None, None, 128]),
        (MODELS["Mistral-7B-v0.1"], [4096, 4096]),
        (MODELS["Mistral-7B-v0.1"] | {"sliding_window": None}, [None]),
        (QWEN3_8B | {"sliding_window": 9, "use_sliding_window": False}, [None, None]),
        (QWEN3_8B | {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 1},
         [None, 9, 9]),
    ],
)  # fmt: skip
def test_windows_are_those_of_the_layers(config: dict[str, Any], windows: list[int | None]) -> None:
    assert [layer.window for layer in model(config).layers[: len(windows)]] == windows


def parts_by_role(config: dict[str, Any], tp: int, layer: int | None = 1) -> dict[str, Part]:
    stored = formats(config, None, None)
    assert isinstance(stored, Formats)
    return {part.role: part for part in parts(model(config), stored, tp) if part.layer == layer}


def test_ranks_beyond_the_kv_heads_hold_whole_ones() -> None:
    config = MODELS["qwen3-30b-a3b"]  # 4 KV heads
    assert [parts_by_role(config, tp)["kv_write"].kv_written for tp in (1, 4, 8)] == [
        2 * 4 * 128, 2 * 128, 2 * 128
    ]  # fmt: skip


def test_a_size_that_does_not_divide_is_that_of_the_largest_share() -> None:
    config = QWEN3_8B | {"num_attention_heads": 30, "num_key_value_heads": 6, "head_dim": 128}
    found = parts_by_role(config, 4)
    assert found["qkv_proj"].flops_per_row == 2 * 4096 * (8 + 2 * 2) * 128
    assert found["attention"].context_pair == 4 * 8 * 128


def test_the_router_is_on_every_rank() -> None:
    config = MODELS["qwen3-30b-a3b"]
    one, four = (parts_by_role(config, tp) for tp in (1, 4))
    assert one["router"] == four["router"]
    assert one["experts_down"].flops_per_row == 4 * four["experts_down"].flops_per_row
    assert one["experts_down"].weight_bytes == 4 * (four["experts_down"].weight_bytes or 0)


def test_the_vocabulary_is_padded_before_it_is_split() -> None:
    config = QWEN3_8B | {"vocab_size": 50_257}
    assert parts_by_role(config, 2, None)["lm_head"].flops_per_row == 2 * 4096 * 50_304 // 2
