"""Run directories: the files that `traceql capture` writes beside the traces."""

import copy
import io
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from drills.binary_damage import BYTE_MUTATORS
from drills.case import Kind
from drills.database_oracle import admitted_losses, rows
from drills.json_damage import TEXT_MUTATORS, TREE_MUTATORS
from drills.mutants import Mutant, Recipe, Step, after_steps, mutant_kind
from drills.seeds import EXAMPLES, OLD_RANK, seed_traces

_RUN = EXAMPLES / "qwen3-8b-tp2-serving"
_NAMES = (
    "run", "a b", "*", "[x]", "?", "{a,b}", "'quote'", "%s", "caf\u00e9", "-dash", "a'b;c", "x" * 200,
    "run.json", "$HOME", "#1", "**",
)  # fmt: skip
_JSON_FILES = ("run.json", "metrics.json")
_TELEMETRY = "SELECT * EXCLUDE run FROM telemetry_sample ORDER BY ALL"
_STEPS = """
    SELECT rank, number, begin_unix_ns, map_entries(requests), map_entries(computed)
    FROM run_iteration
"""


@cache
def _seed() -> Mapping[str, Any]:
    """The files of a small run as values: JSON, lines of JSON, or a table."""
    run = json.loads((_RUN / "run.json").read_text())
    run["ranks"] = [rank | {"trace": "traces/rank0.json"} for rank in run["ranks"][:1]]
    metrics = json.loads((_RUN / "metrics.json").read_text())
    for part in metrics["passes"].values():
        part["requests"] = [one | {"itl": one["itl"][:3]} for one in part["requests"][:3]]
    lines = (_RUN / "steps.jsonl").read_text().splitlines()[:6]
    return {
        "run.json": run,
        "metrics.json": metrics,
        "steps.jsonl": [
            step | {"computed": dict.fromkeys(step["requests"], 100 + n)}
            for n, step in enumerate(map(json.loads, lines))
        ],
        "telemetry.parquet": pq.read_table(_RUN / "telemetry.parquet").slice(0, 8),
    }


def _odd_column(table: pa.Table, random: Random) -> pa.Table:
    """A column of another type, or of odd values."""
    name = random.choice(table.column_names)
    odd: pa.Array = random.choice(
        [
            pa.nulls(len(table)), pa.array(["x"] * len(table)), pa.array([1.5] * len(table)),
            pa.array([2**63] * len(table), pa.uint64()), pa.array([[1]] * len(table)),
            pa.array([-1] * len(table)), pa.array([True] * len(table)),
        ]
    )  # fmt: skip
    return table.set_column(table.column_names.index(name), name, odd)


_TABLES: Mapping[str, Callable[[pa.Table, Random], pa.Table]] = {
    "odd_column": _odd_column,
    "less": lambda table, random: table.drop_columns([random.choice(table.column_names)]),
    "more": lambda table, random: table.append_column(
        random.choice(("new", "run", "GPU", "")), pa.nulls(len(table))
    ),
    "none": lambda table, _: table.slice(0, 0),
}


def run_directory_recipe(random: Random) -> Recipe:
    """The units are the names of the files; a step's stage is a file and the way to damage it."""
    steps = []
    for _ in range(random.choice((1, 1, 2, 3))):
        file = random.choice((*_seed(), *_JSON_FILES))
        how = random.choice(("value", "value", "text", "bytes"))
        if file == "telemetry.parquet":
            how, names = random.choice((("value", _TABLES), ("bytes", BYTE_MUTATORS)))
        else:
            names = {"value": TREE_MUTATORS, "text": TEXT_MUTATORS, "bytes": BYTE_MUTATORS}[how]
        steps.append(Step(f"{file} {how}", random.choice(list(names)), random.getrandbits(32)))
    if random.random() < 0.3:
        steps.append(Step("folder", "name", random.getrandbits(32)))
    return Recipe(list(_seed()), steps)


def run_directory_mutant(recipe: Recipe) -> Mutant:
    folder = next((s.random.choice(_NAMES) for s in recipe.steps if s.stage == "folder"), "run")
    files = {name: _damaged(name, recipe) for name in recipe.units}
    trace = seed_traces()[0]
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"][:40]
    files["traces/rank0.json"] = json.dumps(trace | {"traceEvents": events}).encode()
    is_valid = {step.stage for step in recipe.steps} <= {"folder"}
    return Mutant(
        {f"{folder}/{name}": content for name, content in files.items()},
        [f"./{folder}"],
        partial(_disagreement, files, len(events)),
        is_valid,
    )


def _damaged(name: str, recipe: Recipe) -> bytes:
    before: Mapping[str, Callable[[Any], Any]] = {
        f"{name} text": lambda value: _encoded(name, value).decode(errors="surrogateescape"),
        f"{name} bytes": lambda text: text.encode(errors="surrogateescape"),
    }
    mutators: Mapping[str, Mapping[str, Callable[..., Any]]] = {
        f"{name} value": _TABLES if name.endswith("parquet") else TREE_MUTATORS,
        f"{name} text": TEXT_MUTATORS,
        f"{name} bytes": BYTE_MUTATORS,
    }
    content: bytes = after_steps(copy.deepcopy(_seed()[name]), recipe.steps, mutators, before)
    return content


def _encoded(name: str, value: Any) -> bytes:
    if name.endswith("parquet"):
        sink = io.BytesIO()
        pq.write_table(value, sink)
        return sink.getvalue()
    if name.endswith("jsonl"):
        return "".join(json.dumps(line) + "\n" for line in value).encode()
    return json.dumps(value, indent=1).encode()


def _disagreement(files: Mapping[str, bytes], events: int, database: Path) -> str | None:
    """What was lost of a file although the ledger does not say that this file is damaged."""
    ((found,),) = rows(database, f"SELECT COUNT(*) FROM slice WHERE rank <> {OLD_RANK}")
    if found != events:
        return f"{found} slices of {events}"
    failed = admitted_losses(database)
    is_damaged = any(files.get(name) != _encoded(name, value) for name, value in _seed().items())
    # A rank that the database had before is none of the run's two.
    has_old_rank = (OLD_RANK,) in rows(database, "SELECT rank FROM trace")
    lost = {*failed} - ({"sizes in run.json"} if has_old_rank else set())
    if lost and not is_damaged:
        return f"an undamaged run fails its ledger: {', '.join(sorted(lost))}"
    for file, check in _CHECKS.items():
        if file not in failed and (wrong := check(files, database)):
            return wrong
    return None


def _value(content: bytes | None) -> Any:
    """The JSON value of a file; None if it is absent or damaged."""
    try:
        return None if content is None else json.loads(content)
    except (ValueError, RecursionError):
        return None


def _is_run(files: Mapping[str, bytes]) -> bool:
    """Whether run.json is that of a run directory, without which nothing beside it is loaded."""
    run = _value(files.get("run.json"))
    version = run.get("schema_version") if isinstance(run, dict) else None
    return isinstance(version, int) and version == 1 and not isinstance(version, bool)


def _run_is_kept(files: Mapping[str, bytes], database: Path) -> str | None:
    kept = [json.loads(document) for (document,) in rows(database, "SELECT document FROM run_file")]
    if _is_run(files) and kept != [_value(files["run.json"])]:
        return f"run.json is not in run_file, which has {len(kept)} rows"
    return None


def _steps_are_kept(files: Mapping[str, bytes], database: Path) -> str | None:
    found = [(*row[:3], *map(_tokens, row[3:])) for row in rows(database, _STEPS)]
    lines = files.get("steps.jsonl", b"").split(b"\n") if _is_run(files) else []
    values = [_value(line) for line in lines if line.strip()]
    if any(not _is_step(value) for value in values):
        return None  # the ledger may or may not count a damaged line as one
    expected = [tuple(value.get(key) for key in _STEP_KEYS) for value in values]
    if sorted(map(repr, found)) != sorted(map(repr, expected)):
        return f"{len(found)} rows in run_iteration for {len(expected)} lines, or others"
    return None


_STEP_KEYS = ("rank", "number", "begin_unix_ns", "requests", "computed")


def _tokens(entries: Any) -> dict[str, int] | None:
    return None if entries is None else {entry["key"]: entry["value"] for entry in entries}


def _is_step(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(_is_int(value.get(key)) for key in _STEP_KEYS[:3])
        and _is_tokens(value.get("requests"))
        and (value.get("computed") is None or _is_tokens(value["computed"]))
    )


def _is_tokens(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_int, value.values()))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _telemetry_is_kept(files: Mapping[str, bytes], database: Path) -> str | None:
    if not _is_run(files) or "telemetry.parquet" not in files:
        return None
    found = rows(database, _TELEMETRY)
    try:
        table = pq.read_table(io.BytesIO(files["telemetry.parquet"]))
    except (pa.ArrowException, OSError):
        return None  # readers differ in what damage they see
    if table.schema != _seed()["telemetry.parquet"].schema:
        return None
    expected = [tuple(row.values()) for row in table.to_pylist()]
    return None if sorted(map(repr, found)) == sorted(map(repr, expected)) else "telemetry differs"


def _requests_are_kept(files: Mapping[str, bytes], database: Path) -> str | None:
    if not _is_run(files):
        return None
    metrics = _value(files.get("metrics.json"))
    try:
        expected = sorted(
            str(request["request_id"])
            for part in metrics["passes"].values()
            for request in part["requests"]
        )
    except (TypeError, KeyError, AttributeError):
        return None
    found = rows(database, "SELECT COUNT(*) FROM request")[0][0]
    return None if found == len(expected) else f"{found} requests of {len(expected)}"


_CHECKS: Mapping[str, Callable[[Mapping[str, bytes], Path], str | None]] = {
    "run.json": _run_is_kept,
    "steps.jsonl": _steps_are_kept,
    "telemetry.parquet": _telemetry_is_kept,
    "metrics.json": _requests_are_kept,
}

RUN_DIRECTORY: Kind = mutant_kind("run directory", run_directory_recipe, run_directory_mutant)
