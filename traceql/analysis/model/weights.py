"""How wide the weights and activations of a product are, from the quantization of the model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

_WIDTHS = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}
_PATTERN = re.compile(r"[^\w.*]")  # what a name with asterisks does not have
_BITS = (2, 3, 4, 8)
_WRAPPERS = ("model.language_model.", "language_model.")
_MXFP4 = ("mxfp4", "gpt_oss_mxfp4")  # as in gpt-oss, and as vLLM 0.25 calls it once loaded
_PEAKS = {2: "bf16", 4: "tf32"}  # fp16 has the same peak as bf16


@dataclass(frozen=True)
class Format:
    """How the operands of a product are stored.

    Attributes:
        weight_bytes: of an element of the weights, its share of the scales included; None if
            unknown.
        input_bytes: of an element of the input that the product reads.
        dtype: whose peak the FLOPs count against (peak.dtype); None if unknown.
        missing: why it is unknown.
    """

    weight_bytes: float | None
    input_bytes: int
    dtype: str | None
    missing: str | None = None


@dataclass(frozen=True)
class Formats:
    """The formats of a model's parts.

    Attributes:
        plain: of what is not quantized: output projection, router, activations.
        linear: of the products in layers.
        experts: of the products of experts.
        skipped: names of modules, or of modules around them, that are not quantized; an asterisk
            stands for any text.
    """

    plain: Format
    linear: Format
    experts: Format
    skipped: tuple[str, ...] = ()

    def of(self, kind: Format, layer: int, *modules: str) -> Format:
        """The given format, unless the configuration leaves one of these modules out."""
        if not self.skipped:
            return kind
        paths = [f"model.layers.{layer}.{module}" for module in modules]
        return self.plain if any(_is_in(path, self.skipped) for path in paths) else kind


def _is_in(path: str, names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(f".{path}.", f"*.{name.strip('.')}.*") for name in names)


def formats(
    config: Mapping[str, Any], dtype: str | None, quantization: str | None
) -> Formats | str:
    """The formats of a model, or what keeps even those of its activations from being known.

    Args:
        config: the model's configuration.
        dtype: the type given to the engine; else that of the configuration counts.
        quantization: the method given to the engine, for weights that are not stored
            quantized.
    """
    stated = dtype or config.get("dtype") or config.get("torch_dtype")
    width = _WIDTHS.get(str(stated).removeprefix("torch."))
    if width is None:
        return f"dtype of the model ({stated or 'not stated'})"
    plain = Format(float(width), width, _PEAKS[width])
    stored = config.get("quantization_config") or config.get("compression_config")
    if isinstance(stored, Mapping):
        return _stored(stored, plain)
    if stored is not None:
        return _unknown(plain, str(stored))
    if quantization is None:
        return Formats(plain, plain, plain)
    if quantization == "fp8":  # at load, one scale for each tensor
        narrow = Format(1.0, 1, "fp8")
        return Formats(plain, narrow, narrow)
    return _unknown(plain, quantization)


def _unknown(plain: Format, quantization: str) -> Formats:
    narrow = Format(None, plain.input_bytes, None, f"sizes of quantization {quantization}")
    return Formats(plain, narrow, narrow)


def _stored(stored: Mapping[str, Any], plain: Format) -> Formats:
    method = str(stored.get("quant_method") or "of an unnamed method")
    skipped = _skipped(stored)
    if skipped is None:
        return _unknown(plain, f"{method}, which leaves out modules by a pattern")
    if method == "fp8":
        narrow = Format(1.0 + _block_scale(stored), 1, "fp8")
        return Formats(plain, narrow, narrow, skipped)
    if method in _MXFP4:  # blocks of 32 share a scale of one byte; only experts
        return Formats(plain, plain, Format(0.5 + 1 / 32, plain.input_bytes, plain.dtype), skipped)
    if method in ("awq", "gptq"):
        return _grouped(stored, plain, skipped)
    if method == "compressed-tensors":
        return _compressed(stored, plain, skipped)
    return _unknown(plain, method)


def _skipped(stored: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The modules that are left out; None if a pattern is more than a name with asterisks."""
    names = []
    for key in ("modules_to_not_convert", "ignore", "ignored_layers"):
        listed = stored.get(key)
        names += [n for n in listed if isinstance(n, str)] if isinstance(listed, list) else []
    plain = [_of_decoder(_without_expression(name)) for name in names]
    return None if any(_PATTERN.search(name) for name in plain) else tuple(plain)


def _of_decoder(name: str) -> str:
    """The name of a module without what a model of text and images puts before it."""
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper)
    return name


def _without_expression(name: str) -> str:
    """A simple regular expression, as compressed-tensors has them, as a name with asterisks."""
    if not name.startswith("re:"):
        return name
    return name.removeprefix("re:").strip("^$").replace(".*", "*").replace("\\.", ".")


def _block_scale(stored: Mapping[str, Any]) -> float:
    """Bytes of scales per element: 4 for each block."""
    block = stored.get("weight_block_size")
    if isinstance(block, list) and len(block) == 2 and all(isinstance(n, int) for n in block):
        elements: int = block[0] * block[1]
        return 4.0 / elements if elements > 0 else 0.0
    return 0.0


def _grouped(stored: Mapping[str, Any], plain: Format, skipped: tuple[str, ...]) -> Formats:
    """Weights in groups, each with a scale of 2 bytes and a zero point."""
    bits, group = stored.get("bits"), stored.get("group_size")
    if bits not in _BITS or not isinstance(group, int):
        return _unknown(plain, f"{stored.get('quant_method')} without bits or group_size")
    scale = (2 + bits / 8) / group if group > 0 else 0.0
    narrow = Format(bits / 8 + scale, plain.input_bytes, plain.dtype)
    return Formats(plain, narrow, narrow, skipped)


def _compressed(stored: Mapping[str, Any], plain: Format, skipped: tuple[str, ...]) -> Formats:
    groups = stored.get("config_groups")
    group = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping) or len(groups or ()) != 1:
        return _unknown(plain, "compressed-tensors with other than one group")
    bits, kind = weights.get("num_bits"), weights.get("type")
    if bits not in _BITS:
        return _unknown(plain, "compressed-tensors without num_bits")
    size = weights.get("group_size")
    of_scale = 1 if kind == "float" and bits == 4 else 2
    scale = of_scale / size if isinstance(size, int) and size > 0 else 0.0
    inputs = group.get("input_activations") if isinstance(group, Mapping) else None
    if not isinstance(inputs, Mapping):
        narrow = Format(bits / 8 + scale, plain.input_bytes, plain.dtype)
    elif inputs.get("num_bits") == 8:
        peak = "int8" if kind == "int" and bits == 8 else "fp8"
        narrow = Format(bits / 8 + scale, 1, peak)
    else:
        return _unknown(plain, f"with inputs of {inputs.get('num_bits')} bits")
    return Formats(plain, narrow, narrow, skipped)
