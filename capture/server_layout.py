"""Reads the parallel layout from a server's command line, and the configuration of its model."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_SIZE_OPTIONS = {
    "tp": ("--tensor-parallel-size", "-tp"),
    "pp": ("--pipeline-parallel-size", "-pp"),
    "dp": ("--data-parallel-size", "-dp"),
}


def parallel_layout(command: Sequence[str]) -> dict[str, Any]:
    """The sizes of the parallel groups in a command line, or {} if it does not state them."""
    names = _option_names(command)
    asked = {
        name: _option_value(command, options) or "1" for name, options in _SIZE_OPTIONS.items()
    }
    if not command or "--config" in names or not all(map(_is_number, asked.values())):
        return {}
    sizes = {name: int(size) for name, size in asked.items()}
    return {**sizes, "ep": not {"--enable-expert-parallel", "-ep"}.isdisjoint(names)}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def placed(ranks: Sequence[dict[str, Any]], layout: dict[str, Any]) -> list[dict[str, Any]]:
    """Adds to each rank its place in the parallel groups, in vLLM's order: tensor ranks first.

    A place that a rank already has is kept. Nothing is added if the number of ranks is not that
    of the layout.
    """
    tp, pp, dp = (layout.get(name, 0) for name in ("tp", "pp", "dp"))
    if tp * pp * dp != len(ranks):
        return list(ranks)
    places = [
        {"tp_rank": n % tp, "pp_rank": n // tp % pp, "dp_rank": n // (tp * pp)}
        for n in (rank["rank"] for rank in ranks)
    ]
    return [place | rank for place, rank in zip(places, ranks, strict=True)]


def model_config(served: dict[str, Any]) -> dict[str, Any] | None:
    """The config.json of a served model, from its folder or this machine's Hugging Face cache."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        found: dict[str, Any] = json.loads(_config_file(served["root"]).read_text())
        return found
    return None


def _config_file(root: str) -> Path:
    from huggingface_hub import try_to_load_from_cache

    folder = Path(root)
    if folder.is_dir():
        return folder / "config.json"
    cached = try_to_load_from_cache(root, "config.json")
    if not isinstance(cached, str):
        raise FileNotFoundError(f"{root} is not in the Hugging Face cache of this machine")
    return Path(cached)


def _option_names(command: Sequence[str]) -> list[str]:
    return [argument.partition("=")[0].replace("_", "-") for argument in command]


def _option_value(command: Sequence[str], options: Sequence[str]) -> str | None:
    for name, argument, following in zip(
        _option_names(command), command, [*command[1:], ""], strict=True
    ):
        if name in options:
            return argument.partition("=")[2] or following
    return None
