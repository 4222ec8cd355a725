"""Model configurations: config.json of Hugging Face."""

import copy
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, TypeGuard

from drills import seeds
from drills.kind import Kind
from drills.mutants import Mutant, Recipe, mutant_kind, steps
from drills.mutate import octets, texts, tree
from drills.oracle.database import rows

_MODELS = Path(__file__).parents[2] / "capture" / "models"
_STAGES = {
    "structure": tree.MUTATORS,
    "text": texts.MUTATORS,
    "encoding": texts.ENCODINGS,
    "bytes": octets.MUTATORS,
}
_MOST_LAYERS = 100_000
_INT64 = range(-(2**63), 2**63)


@cache
def _configs() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(_MODELS.glob("*.json"))]


def recipe(random: Random) -> Recipe:
    """The units are the entries of a configuration; a third of them are inside another object."""
    config = random.choice(_configs())
    if random.random() < 0.3:
        config = {"transformers": "5", "text_config": config}
    keys = ("model_type", "num_hidden_layers", "hidden_size")
    focused = {key: config[key] for key in keys if key in config} or config
    chosen = random.choice((config, focused))  # small ones are damaged where it matters
    return Recipe(list(chosen.items()), steps(random, _STAGES, weights=(4, 3, 1, 1)))


def built(recipe: Recipe) -> Mutant:
    value: Any = copy.deepcopy(dict(recipe.units))
    content = b""
    for stage, mutators in _STAGES.items():
        if stage == "text":
            value = json.dumps(value, ensure_ascii=False)
        elif stage == "encoding":
            value = value.encode(errors="surrogatepass")
        for step in recipe.steps:
            if step.stage == stage:
                damage: Callable[[Any, Random], Any] = mutators[step.name]
                value = damage(value, step.random)
    content = value
    trace = seeds.traces()[0]
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"][:20]
    files = {"rank0.json": json.dumps({"traceEvents": events}).encode(), "config.json": content}
    arguments = ["rank0.json", "--model-config", "config.json"]
    return Mutant(files, arguments, partial(_disagreement, content))


def _disagreement(content: bytes, database: Path) -> str | None:
    try:
        expected = _described(json.loads(content.decode("utf-8-sig"), object_pairs_hook=_single))
    except _Uncertain:
        return None
    except (ValueError, RecursionError):
        return "it accepted a file that is not JSON"
    found = rows(database, "SELECT model_type, layers, hidden_size FROM model_config")
    if expected is None:
        return "it accepted a configuration without a model"
    return None if found == [expected] else f"the database has {found}, the file {expected}"


class _Uncertain(Exception):
    """An object has a key twice."""


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Uncertain
    return found


def _described(value: Any) -> tuple[str, int, int | None] | None:
    """The first object that names a type and a number of layers, outer objects first."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict):
            continue
        kind, layers, hidden = (
            one.get(k) for k in ("model_type", "num_hidden_layers", "hidden_size")
        )
        if isinstance(kind, str) and _is_int(layers):
            is_size = _is_int(hidden) and hidden in _INT64
            return (
                (kind, layers, hidden if is_size else None) if 0 < layers <= _MOST_LAYERS else None
            )
        waiting += reversed(one.values())
    return None


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


KIND: Kind = mutant_kind("model", recipe, built)
