"""Loads the model's configuration, which the recognized layers are checked against."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from traceql.errors import ModelConfigInvalid
from traceql.layers.grammar import grammars

_MOST_LAYERS = 100_000


def write_model_config(
    con: duckdb.DuckDBPyConnection, given: Path | None, traces: Sequence[Path]
) -> None:
    """Fills `model_config` from the given file, or else from a run.json beside the traces.

    Raises:
        ModelConfigInvalid: the given file cannot be read or does not describe a model.
    """
    found = _described(given) if given else next(_beside(traces), None)
    if found is None:
        return
    path, config = found
    families = [g.name for g in grammars() if config["model_type"] in g.model_types]
    con.execute("DELETE FROM model_config")
    con.execute(
        "INSERT INTO model_config VALUES (?, ?, ?, ?, ?)",
        [
            config["model_type"],
            config["num_hidden_layers"],
            hidden if isinstance(hidden := config.get("hidden_size"), int) else None,
            families,
            str(path),
        ],
    )


def _described(path: Path) -> tuple[Path, dict[str, Any]]:
    try:
        config = _config(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ModelConfigInvalid(f"cannot read the model configuration {path}: {error}") from None
    if config is None:
        raise ModelConfigInvalid(
            f"{path} has no model_type and num_hidden_layers; give the model's config.json"
        )
    if not _is_count(config["num_hidden_layers"]):
        value = _short(config["num_hidden_layers"])
        raise ModelConfigInvalid(f"{path}: num_hidden_layers is {value}, not a number of layers")
    return path, config


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_LAYERS


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 20 else f"{text[:20]}..."


def _beside(traces: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    folders = dict.fromkeys(folder for trace in traces for folder in trace.parents[:2])
    for folder in folders:
        path = folder / "run.json"
        if path.is_file():
            try:
                config = _config(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError):
                continue
            if config and _is_count(config["num_hidden_layers"]):
                yield path, config


def _config(value: Any) -> dict[str, Any] | None:
    """The first object that describes a model, at any depth: in run.json, it is an inner object."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("model_type"), str) and isinstance(value.get("num_hidden_layers"), int):
        return value
    return next((found for inner in value.values() if (found := _config(inner))), None)
