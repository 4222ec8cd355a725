"""Names of engines for people: their parallel sizes, and by what else they differ."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from traceql.runs.experiment.documents import EngineDocument

Key = TypeVar("Key")


def model_name(model: str) -> str:
    """The last part of a path or an id."""
    return model.rstrip("/").rpartition("/")[2] or model


def engine_titles(engines: Mapping[Key, EngineDocument]) -> dict[Key, str]:
    """A title for each engine, by key: "TP 2, EP", with the model and arguments if they differ."""
    ones = list(engines.values())
    several_models = len({one.model for one in ones}) > 1
    differing = _differing([one.arguments for one in ones])
    variables = _differing([one.environment for one in ones])
    return {
        key: _title(one, differing, variables, several_models=several_models)
        for key, one in engines.items()
    }


def _title(
    one: EngineDocument, arguments: Sequence[str], variables: Sequence[str], *, several_models: bool
) -> str:
    sizes = {"PP": one.pp, "DP": one.dp}
    parts = [f"TP {one.tp}", *(f"{name} {size}" for name, size in sizes.items() if size > 1)]
    parts += ["EP"] if one.ep else []
    parts += [f"{name}={_text(one.arguments[name])}" for name in arguments if name in one.arguments]
    parts += [f"{name}={one.environment[name]}" for name in variables if name in one.environment]
    words = ", ".join(parts)
    return f"{model_name(one.model)} {words}" if several_models else words


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names whose values are not the same in all."""
    names = sorted({name for one in settings for name in one})
    return [n for n in names if len({_text(one.get(n)) for one in settings}) > 1]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
