"""Models with the numbers of parameters that their cards or reports state.

The configurations are those of the models' public config.json, without what sizes do not need.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILT_IN = Path(__file__).resolve().parents[1] / "capture" / "models"


@dataclass(frozen=True)
class Published:
    """Billions of parameters, as they are stated; active is None where it is not."""

    name: str
    config: dict[str, Any]
    total: str
    active: str | None = None

    def __str__(self) -> str:
        return self.name


def _decoder(
    model_type: str,
    hidden: int,
    ffn: int,
    layers: int,
    heads: int,
    kv: int,
    words: int,
    **more: Any,
) -> dict[str, Any]:
    return {
        "model_type": model_type, "hidden_size": hidden, "intermediate_size": ffn,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
        "vocab_size": words, "tie_word_embeddings": False, "dtype": "bfloat16", **more,
    }  # fmt: skip


_LATENT = {
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip
_QWEN_MOE = {
    "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
_GPT_OSS = {
    "num_experts_per_tok": 4, "head_dim": 64, "attention_bias": True, "sliding_window": 128,
}  # fmt: skip
_GLM = {
    "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "head_dim": 128,
    "attention_bias": True,
}  # fmt: skip
_GEMMA = {"head_dim": 256, "tie_word_embeddings": True, "sliding_window": 4096}

# Cards of the models; gemma-3: arXiv 2503.19786, table 1, without the vision encoder.
PUBLISHED = (
    Published(
        "Llama-3.1-8B", _decoder("llama", 4096, 14336, 32, 32, 8, 128_256), "8.03"
    ),
    Published(
        "Qwen2.5-7B", _decoder("qwen2", 3584, 18944, 28, 28, 4, 152_064), "7.616"
    ),
    Published(
        "Mistral-7B-v0.1",
        _decoder("mistral", 4096, 14336, 32, 32, 8, 32_000, sliding_window=4096), "7.24",
    ),
    Published(
        "Mixtral-8x7B",
        _decoder("mixtral", 4096, 14336, 32, 32, 8, 32_000,
                 num_local_experts=8, num_experts_per_tok=2),
        "46.70", "12.9",
    ),
    Published(
        "DeepSeek-V2-Lite",
        _decoder("deepseek_v2", 2048, 10944, 27, 16, 16, 102_400, **_LATENT, q_lora_rank=None,
                 n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
                 moe_intermediate_size=1408, first_k_dense_replace=1, moe_layer_freq=1),
        "15.7",
    ),
    Published(
        "DeepSeek-V3",
        _decoder("deepseek_v3", 7168, 18432, 61, 128, 128, 129_280, **_LATENT, q_lora_rank=1536,
                 n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8,
                 moe_intermediate_size=2048, first_k_dense_replace=3, moe_layer_freq=1),
        "671",
    ),
    Published(
        "Qwen1.5-MoE-A2.7B",
        _decoder("qwen2_moe", 2048, 5632, 24, 16, 16, 151_936, **_QWEN_MOE), "14.3", "2.7",
    ),
    Published(
        "gpt-oss-20b",
        _decoder("gpt_oss", 2880, 2880, 24, 64, 8, 201_088, **_GPT_OSS, num_local_experts=32),
        "20.91",
    ),
    Published(
        "gemma-2-9b", _decoder("gemma2", 3584, 14336, 42, 16, 8, 256_000, **_GEMMA), "9.24"
    ),
    Published(
        "gemma-3-1b",
        _decoder("gemma3_text", 1152, 6912, 26, 4, 1, 262_144, **_GEMMA), "1.000",
    ),
    Published(
        "Phi-3-mini", _decoder("phi3", 3072, 8192, 32, 32, 32, 32_064, sliding_window=2047), "3.82"
    ),
    Published(
        "SmolLM3-3B",
        _decoder("smollm3", 2048, 11008, 36, 16, 4, 128_256, tie_word_embeddings=True), "3.08",
    ),
    Published("OLMo-2-1124-7B", _decoder("olmo2", 4096, 11008, 32, 32, 32, 100_352), "7.30"),
    Published(
        "granite-3.1-8b",
        _decoder("granite", 4096, 12800, 40, 32, 8, 49_155, tie_word_embeddings=True), "8.17",
    ),
    Published("GLM-4.5-Air", _decoder("glm4_moe", 4096, 10944, 46, 96, 8, 151_552, **_GLM), "107"),
)  # fmt: skip

# As on the cards: total, active, and total without embeddings.
QWEN3 = {
    "qwen3-0.6b": ("0.596", "0.596", "0.440"),
    "qwen3-1.7b": ("1.721", "1.721", "1.409"),
    "qwen3-4b": ("4.022", "4.022", "3.634"),
    "qwen3-8b": ("8.191", "8.191", "6.946"),
    "qwen3-14b": ("14.768", "14.768", "13.212"),
    "qwen3-32b": ("32.762", "32.762", "31.206"),
    "qwen3-30b-a3b": ("30.532", "3.353", "29.910"),
    "qwen3-235b-a22b": ("235.094", "22.191", "233.849"),
}


def built_in() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(BUILT_IN.glob("*.json")):
        yield file.stem, json.loads(file.read_text())
