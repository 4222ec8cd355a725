"""Damaged files of the user: kernel rules in CSV, and model configurations."""

import copy
import csv
import io
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, TypeGuard

from drills.binary_damage import BYTE_MUTATORS
from drills.case import Kind
from drills.database_oracle import Invalid, decisions, rows
from drills.json_damage import CONVERSIONS, ENCODINGS, TEXT_MUTATORS, TREE_MUTATORS
from drills.mutants import Mutant, Recipe, after_steps, mutant_kind, steps
from drills.seeds import OLD_RANK, seed_traces

_NAMES = (
    "nvjet_tst_64x8", "triton_red_fused_3", "ncclDevKernel_AllReduce_Sum_bf16", "my_gemm", "my_rope",
    "void vllm::reshape_and_cache_flash_kernel<x>", "memcpy32_post", "a,b", 'quoted "name"', "x+y(z)",
    "caf\u00e9", "unknown",
)  # fmt: skip
_PATTERNS = (
    "^my_", "my_(gemm|rope)", "nvjet", "fused_[0-9]$", "a,b", '"name"', r"x\+y\(z\)", ".", "unknown",
    "reshape.*cache", "[A-Z]+", "caf\u00e9", "^$", "(?:nccl|rccl)",
)  # fmt: skip
_CATEGORIES = ("gemm", "attention", "moe", "rope", "other", "collective", "sampling")
_PRIORITIES = (0, 1, 2, 5, 10, 20, 500, 10**6, 2**31, 2**63 - 1)
_HEAD = ["priority", "pattern", "category", "example", "note"]
_ODD_CELLS = (
    "", " ", "-1", "1.5", "1e3", " 7 ", "\u0663", "\u00b2", "99999999999999999999", "matmul", "GEMM",
    "(", "[", "*", "a{2}", "(?=x)", r"\1", "(?P<n>x)", "\x00", "\x1b[31m", "</script>", "\u2028", "a\nb",
    "=1+1", "'", "x" * 5_000, "(a+)+$", ".*" * 20, "a{1000}", "(a{1000}){1000}", "\ufeff", "$1", "\\",
)  # fmt: skip
Row = list[str]


def _odd_cell(table: list[Row], random: Random) -> list[Row]:
    if row := random.choice(table):
        row[random.randrange(len(row))] = random.choice(_ODD_CELLS)
    return table


def _odd_width(table: list[Row], random: Random) -> list[Row]:
    row = random.choice(table)
    row[:] = random.choice((row[:2], [*row, "more"], [], row * 2))
    return table


def _other_columns(table: list[Row], random: Random) -> list[Row]:
    """The columns in another order, with their cells."""
    order = random.sample(range(len(_HEAD)), len(_HEAD))
    return [[row[n] for n in order if n < len(row)] for row in table]


_TABLE: Mapping[str, Callable[[list[Row], Random], list[Row]]] = {
    "odd_cell": _odd_cell,
    "odd_width": _odd_width,
    "same_priority": lambda table, random: [*table, random.choice(table)],
    "other_columns": _other_columns,
    "shuffled": lambda table, random: [table[0], *random.sample(table[1:], len(table) - 1)],
}
_RULES_STAGES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "table": _TABLE, "encoding": ENCODINGS, "bytes": BYTE_MUTATORS
}  # fmt: skip


def rules_recipe(random: Random) -> Recipe:
    """The units are rules."""
    priorities = random.sample(_PRIORITIES, random.randint(1, 8))
    chosen = [(random.choice(_PATTERNS), random.choice(_CATEGORIES)) for _ in priorities]
    rules = [[str(p), *rule, "", "mine"] for p, rule in zip(priorities, chosen, strict=True)]
    return Recipe(rules, steps(random, _RULES_STAGES, weights=(6, 1, 1)))


def _csv(table: list[Row]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(table)
    return text.getvalue().encode(errors="surrogatepass")


def rules_mutant(recipe: Recipe) -> Mutant:
    table = [list(_HEAD), *map(list, recipe.units)]
    content: bytes = after_steps(table, recipe.steps, _RULES_STAGES, {"encoding": _csv})
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 10 * n, "dur": 5}
        for n, name in enumerate(_NAMES)
    ]
    files = {"rank0.json": json.dumps({"traceEvents": events}).encode(), "rules.csv": content}
    arguments = ["rank0.json", "--rules", "rules.csv"]
    return Mutant(files, arguments, partial(_rules_disagreement, content))


def _rules_disagreement(content: bytes, database: Path) -> str | None:
    try:
        expected = decisions(content, _NAMES)
    except Invalid:
        return "it accepted a file that is not a list of rules"
    classes = rows(database, "SELECT * EXCLUDE symbol FROM kernel_class")
    found = {name: (category, priority) for name, category, priority in classes}
    for name in _NAMES:
        if found.get(name) != expected[name]:
            return f"{name} has {found.get(name)}, not {expected[name]}"
    count = f"SELECT COUNT(*) FROM kernel WHERE rank <> {OLD_RANK}"
    return None if rows(database, count) == [(len(_NAMES),)] else "kernels are missing"


RULES: Kind = mutant_kind("rules", rules_recipe, rules_mutant)


_MODELS = Path(__file__).parents[2] / "capture" / "models"
_MODEL_STAGES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "structure": TREE_MUTATORS,
    "text": TEXT_MUTATORS,
    "encoding": ENCODINGS,
    "bytes": BYTE_MUTATORS,
}
_MOST_LAYERS = 100_000
_INT64 = range(-(2**63), 2**63)


@cache
def _configs() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(_MODELS.glob("*.json"))]


def model_recipe(random: Random) -> Recipe:
    """The units are the entries of a configuration; a third of them are inside another object."""
    config = random.choice(_configs())
    if random.random() < 0.3:
        config = {"transformers": "5", "text_config": config}
    keys = ("model_type", "num_hidden_layers", "hidden_size")
    focused = {key: config[key] for key in keys if key in config} or config
    chosen = random.choice((config, focused))  # small ones are damaged where it matters
    return Recipe(list(chosen.items()), steps(random, _MODEL_STAGES, weights=(4, 3, 1, 1)))


def model_mutant(recipe: Recipe) -> Mutant:
    value = copy.deepcopy(dict(recipe.units))
    content: bytes = after_steps(value, recipe.steps, _MODEL_STAGES, CONVERSIONS)
    trace = seed_traces()[0]
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"][:20]
    files = {"rank0.json": json.dumps({"traceEvents": events}).encode(), "config.json": content}
    arguments = ["rank0.json", "--model-config", "config.json"]
    return Mutant(files, arguments, partial(_model_disagreement, content))


def _model_disagreement(content: bytes, database: Path) -> str | None:
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
        kind, layers, hidden = map(one.get, ("model_type", "num_hidden_layers", "hidden_size"))
        if isinstance(kind, str) and _is_int(layers):
            size = hidden if _is_int(hidden) and hidden in _INT64 else None
            return (kind, layers, size) if 0 < layers <= _MOST_LAYERS else None
        waiting += reversed(one.values())
    return None


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


MODEL: Kind = mutant_kind("model", model_recipe, model_mutant)
