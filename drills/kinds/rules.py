"""Rules that classify kernels: CSV files of the user."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random

from drills.kind import Kind
from drills.mutants import Mutant, Recipe, mutant_kind, steps
from drills.mutate import octets, texts
from drills.old_database import RANK as OLD_RANK
from drills.oracle.database import rows
from drills.oracle.kernel_rules import Invalid, decisions

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
    row = random.choice(table)
    if row:
        row[random.randrange(len(row))] = random.choice(_ODD_CELLS)
    return table


def _odd_width(table: list[Row], random: Random) -> list[Row]:
    row = random.choice(table)
    row[:] = random.choice((row[:2], [*row, "more"], [], row * 2))
    return table


def _same_priority(table: list[Row], random: Random) -> list[Row]:
    return [*table, random.choice(table)]


def _other_columns(table: list[Row], random: Random) -> list[Row]:
    """The columns in another order, with their cells."""
    order = random.sample(range(len(_HEAD)), len(_HEAD))
    return [[row[n] for n in order if n < len(row)] for row in table]


def _shuffled(table: list[Row], random: Random) -> list[Row]:
    return [table[0], *random.sample(table[1:], len(table) - 1)] if table else table


_TABLE: Mapping[str, Callable[[list[Row], Random], list[Row]]] = {
    "odd_cell": _odd_cell, "odd_width": _odd_width, "same_priority": _same_priority,
    "other_columns": _other_columns, "shuffled": _shuffled,
}  # fmt: skip
_BYTES = {"encoding": texts.ENCODINGS, "bytes": octets.MUTATORS}
_STAGES = {"table": _TABLE, **_BYTES}


def recipe(random: Random) -> Recipe:
    """The units are rules."""
    priorities = random.sample(_PRIORITIES, random.randint(1, 8))
    rules = [
        [str(p), random.choice(_PATTERNS), random.choice(_CATEGORIES), "", "mine"]
        for p in priorities
    ]
    return Recipe(rules, steps(random, _STAGES, weights=(6, 1, 1)))


def built(recipe: Recipe) -> Mutant:
    table = [list(_HEAD), *map(list, recipe.units)]
    for step in recipe.steps:
        if step.stage == "table" and table:
            table = _TABLE[step.name](table, step.random)
    text = io.StringIO()
    csv.writer(text).writerows(table)
    content = text.getvalue().encode(errors="surrogatepass")
    for step in recipe.steps:
        if step.stage != "table":
            content = _BYTES[step.stage][step.name](content, step.random)
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 10 * n, "dur": 5}
        for n, name in enumerate(_NAMES)
    ]
    files = {"rank0.json": json.dumps({"traceEvents": events}).encode(), "rules.csv": content}
    return Mutant(files, ["rank0.json", "--rules", "rules.csv"], partial(_disagreement, content))


def _disagreement(content: bytes, database: Path) -> str | None:
    try:
        expected = decisions(content, _NAMES)
    except Invalid:
        return "it accepted a file that is not a list of rules"
    found = {
        name: (category, priority)
        for name, category, priority in rows(database, "SELECT * EXCLUDE symbol FROM kernel_class")
    }
    for name in _NAMES:
        if found.get(name) != expected[name]:
            return f"{name} has {found.get(name)}, not {expected[name]}"
    count = f"SELECT COUNT(*) FROM kernel WHERE rank <> {OLD_RANK}"
    return None if rows(database, count) == [(len(_NAMES),)] else "kernels are missing"


KIND: Kind = mutant_kind("rules", recipe, built)
