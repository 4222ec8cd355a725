"""Built-in architectures, which need no download, and the matrix products of a model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture.errors import ModelNotFound

_FOLDER = Path(__file__).parent


def built_in_models() -> list[str]:
    """The names of the built-in architectures, as `--model` accepts them."""
    return sorted(file.stem for file in _FOLDER.glob("*.json"))


def built_in_config(name: str) -> dict[str, Any] | None:
    """The config.json of a built-in architecture, or None if no architecture has this name.

    Case, publisher and the prefix qwen3- are ignored: `Qwen/Qwen3-8B` and `8b` are `qwen3-8b`.
    """
    short = name.rsplit("/", 1)[-1].lower()
    for stem in (short, f"qwen3-{short}"):
        if stem in built_in_models():
            config: dict[str, Any] = json.loads((_FOLDER / f"{stem}.json").read_text())
            return config
    return None


def write_model(name: str, folder: Path) -> Path:
    """Creates a model folder with nothing but the config.json of a built-in architecture."""
    config = built_in_config(name)
    if config is None:
        raise _unknown(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return folder


def require_model(model: str, *, dummy_weights: bool) -> None:
    """Raises ModelNotFound before an engine is started, if there is no such model."""
    folder = Path(model)
    if dummy_weights:
        if not folder.is_dir() and built_in_config(model) is None:
            raise _unknown(model)
    elif folder.is_dir():
        if not (folder / "config.json").exists():
            raise ModelNotFound(
                f"{model} has no config.json; give the folder of a Hugging Face model"
            )
    elif model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ModelNotFound(f"the folder {model} does not exist; give the folder of a model")
    elif "/" not in model and built_in_config(model):
        raise ModelNotFound(
            f"{model} is a built-in architecture, which has no weights; add --dummy-weights"
        )


def _unknown(model: str) -> ModelNotFound:
    return ModelNotFound(
        f"{model} is neither a folder nor a built-in architecture; "
        f"the built-in architectures are {', '.join(built_in_models())}"
    )


_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_VOCABULARY_STEP = 64  # vLLM pads the vocabulary to a multiple


@dataclass(frozen=True)
class Product:
    """A product of tokens with a matrix of weights: k inputs, n outputs of each token."""

    role: str
    dtype: str
    k: int
    n: int


def configuration(model: str) -> Mapping[str, Any]:
    """The config.json of a built-in architecture, of a model folder, or at a path.

    Raises ModelNotFound if there is none, or it does not describe a decoder.
    """
    path = Path(model)
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text()) if file.is_file() else built_in_config(model)
    except (OSError, ValueError) as error:
        raise ModelNotFound(f"cannot read {file}: {error}") from None
    if config is None:
        raise ModelNotFound(
            f"{model} is neither a config.json, nor a model folder, nor a built-in architecture; "
            f"these are {', '.join(built_in_models())}"
        )
    if not isinstance(config, dict):
        raise ModelNotFound(f"{file} is not the config.json of a model")
    described = config.get("text_config")
    return described if isinstance(described, dict) else config


def model_products(config: Mapping[str, Any], tp: int) -> Sequence[Product]:
    """The products for every token, without those of routed experts, which depend on the routing.

    The projections of latent attention (DeepSeek) have other shapes and are left out. Raises
    ModelNotFound if a size is missing, or cannot be divided by `tp`.
    """
    hidden, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    quantized = config.get("quantization_config")  # of the layers; lm_head stays in bf16
    method = quantized.get("quant_method") if isinstance(quantized, dict) else None
    dense = "fp8" if method == "fp8" else "bf16"
    found = []
    if not config.get("kv_lora_rank"):
        dim = config.get("head_dim") or hidden // heads
        kv_heads = config.get("num_key_value_heads") or heads
        queries = dim * _share(heads, tp, "attention heads")
        keys = dim * max(1, kv_heads // tp)  # more ranks than heads have copies
        found += [
            Product("qkv_proj", dense, hidden, queries + 2 * keys),
            Product("o_proj", dense, queries, hidden),
        ]
    if not any(config.get(name) for name in _EXPERTS):
        inner = _share(_size(config, "intermediate_size"), tp, "rows of the MLP")
        found += [
            Product("gate_up_proj", dense, hidden, 2 * inner),
            Product("down_proj", dense, inner, hidden),
        ]
    padded = -(-_size(config, "vocab_size") // _VOCABULARY_STEP) * _VOCABULARY_STEP
    return [*found, Product("lm_head", "bf16", hidden, _share(padded, tp, "rows of lm_head"))]


def _size(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or value < 1:
        raise ModelNotFound(f"the model's config.json has no {name}")
    return value


def _share(whole: int, tp: int, what: str) -> int:
    if whole % tp:
        raise ModelNotFound(f"{whole} {what} cannot be divided among {tp} ranks; change --tp")
    return whole // tp
