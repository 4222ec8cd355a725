"""What a server's command line and its model's folder tell of a run."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

_SIZES = {
    "tp": ("--tensor-parallel-size", "-tp"),
    "pp": ("--pipeline-parallel-size", "-pp"),
    "dp": ("--data-parallel-size", "-dp"),
}


def parallel_layout(command: Sequence[str]) -> dict[str, Any]:
    """Sizes of the parallel groups as a command line asks for them; {} where it does not tell."""
    names = _names(command)
    asked = {name: _value(command, options) or "1" for name, options in _SIZES.items()}
    if not command or "--config" in names or not all(size.isdigit() for size in asked.values()):
        return {}
    sizes = {name: int(size) for name, size in asked.items()}
    return {**sizes, "ep": not {"--enable-expert-parallel", "-ep"}.isdisjoint(names)}


def placed(ranks: Sequence[dict[str, Any]], layout: dict[str, Any]) -> list[dict[str, Any]]:
    """Ranks with their place in each group, in vLLM's order: tensor ranks next to each other.

    A place that the rank has already stays; none is added where ranks are not as many as the
    layout has.
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
    """The config.json of a served model: from its folder, or from this host's copy of a hub's."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        found: dict[str, Any] = json.loads(_config_file(served["root"]).read_text())
        return found
    return None


def _config_file(root: str) -> Path:
    folder = Path(root)
    if folder.is_dir():
        return folder / "config.json"
    cached = try_to_load_from_cache(root, "config.json")
    if not isinstance(cached, str):
        raise FileNotFoundError(f"this host has no copy of {root}")
    return Path(cached)


def _names(command: Sequence[str]) -> list[str]:
    return [argument.partition("=")[0].replace("_", "-") for argument in command]


def _value(command: Sequence[str], options: Sequence[str]) -> str | None:
    for name, argument, following in zip(_names(command), command, [*command[1:], ""], strict=True):
        if name in options:
            return argument.partition("=")[2] or following
    return None
