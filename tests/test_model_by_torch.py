"""Parameters and FLOPs against a second count: torch.utils.flop_counter, models of Transformers."""

import json
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from published_models import PUBLISHED, built_in
from shared_files import shared_file
from vllm_python import VLLM_PYTHON

from traceql.model.parameters import parameters
from traceql.model.parts import Part, parts
from traceql.model.sizes import Sizes, sizes
from traceql.model.weights import Formats, formats

pytestmark = pytest.mark.vllm

_COUNT = Path(__file__).with_name("counted_by_torch.py")
_TOKENS, _PROMPT, _GENERATED = 48, (7, 19), (1, 19)  # as there
_MODULES = {
    "qkv_proj": "qkv_proj q_proj k_proj v_proj q_a_proj q_b_proj kv_a_proj_with_mqa",
    "kv_b_proj": "kv_b_proj",
    "o_proj": "o_proj",
    "gate_up_proj": "gate_up_proj gate_proj up_proj",
    "down_proj": "down_proj",
    "shared_gate": "shared_expert_gate",
    "lm_head": "lm_head",
}
_ROLES = {module: role for role, modules in _MODULES.items() for module in modules.split()}
_LAYER = re.compile(r"layers\.(\d+)\.")
_SMALL = {
    "hidden_size": 256, "intermediate_size": 640, "num_hidden_layers": 2, "head_dim": 64,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1024, "num_experts": 8,
    "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
_LATENT = {
    "num_key_value_heads": 8, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16,
    "v_head_dim": 24, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
    "moe_intermediate_size": 128, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
SMALL: dict[str, dict[str, Any]] = {
    **{kind: {**_SMALL, "model_type": kind} for kind in ("llama", "qwen2", "qwen3", "gemma3_text")},
    "phi3": {**_SMALL, "model_type": "phi3", "head_dim": 32, "pad_token_id": 0},
    "qwen2_moe": {**_SMALL, "model_type": "qwen2_moe", "num_experts_per_tok": 2, "head_dim": 32,
                  "moe_intermediate_size": 96, "shared_expert_intermediate_size": 160},
    "deepseek_v2": {**_SMALL, **_LATENT, "model_type": "deepseek_v2", "q_lora_rank": None},
    "deepseek_v3": {**_SMALL, **_LATENT, "model_type": "deepseek_v3", "q_lora_rank": 96},
}  # fmt: skip


def _biased() -> dict[str, dict[str, Any]]:
    known = {one.config["model_type"]: one.config for one in PUBLISHED}
    known |= {config["model_type"]: config for _, config in built_in()}
    optional = {
        "granite": "mlp_bias", "llama": "mlp_bias", "smollm3": "mlp_bias",
        "glm4_moe": "use_qk_norm", "qwen2_moe": "qkv_bias",
    }  # fmt: skip
    return {
        f"{kind} {stated}": {
            **config, "attention_bias": stated,
            **({optional[kind]: stated} if kind in optional else {}),
        }
        for kind, config in known.items()
        for stated in (False, True)
    }  # fmt: skip


CONFIGURATIONS = {
    **{one.name: one.config for one in PUBLISHED}, **dict(built_in()), **_biased(), **SMALL
}  # fmt: skip


@cache
def counted() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shared_file("counted.json", _count).read_text())
    return found


def _count(path: Path) -> None:
    done = subprocess.run(
        [VLLM_PYTHON, _COUNT], input=json.dumps(CONFIGURATIONS), capture_output=True, text=True,
        check=False, cwd=_COUNT.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    path.write_text(done.stdout.splitlines()[-1])


def model(name: str) -> Sizes:
    found = sizes(CONFIGURATIONS[name])
    assert isinstance(found, Sizes), found
    return found


def parts_of(name: str) -> list[Part]:
    stored = formats(CONFIGURATIONS[name], None, None)
    assert isinstance(stored, Formats)
    return list(parts(model(name), stored, 1))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_all_parameters_are_counted(name: str) -> None:
    assert parameters(model(name)).total == counted()[name]["parameters"]


@pytest.mark.parametrize("name", SMALL)
def test_products_have_the_flops_of_the_modules(name: str) -> None:
    by_role: dict[tuple[int | None, str], int] = defaultdict(int)
    for module, flops in counted()[name]["modules"].items():
        layer = _LAYER.search(module)
        role = _ROLES[module.rsplit(".", 1)[-1]]
        by_role[int(layer[1]) if layer else None, role] += flops
    products = {
        (part.layer, part.role): part.flops_per_row * _TOKENS
        for part in parts_of(name)
        if part.formula == "product" and part.role != "router"
    }
    assert products == by_role


@pytest.mark.parametrize("name", SMALL)
def test_attention_has_the_flops_of_each_query_with_the_keys_that_it_sees(name: str) -> None:
    said = counted()[name]
    attention = next(part for part in parts_of(name) if part.role == "attention")
    (sq, sk), (one, length) = _PROMPT, _GENERATED
    assert attention.context_pair * pairs(sq, sk) == said["prompt"]
    assert attention.generation_pair * pairs(one, length) == said["generated"]["attention"]


@pytest.mark.parametrize("name", ["deepseek_v2", "deepseek_v3"])
def test_absorbed_weights_take_as_many_flops_as_expanding_the_keys(name: str) -> None:
    expanding = next(part for part in parts_of(name) if part.role == "kv_b_proj")
    assert expanding.flops_per_row == counted()[name]["generated"]["weights"]


def pairs(sq: int, sk: int) -> int:
    return sum(sk - sq + number + 1 for number in range(sq))
