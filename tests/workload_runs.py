"""Real traces of a known workload, loaded as run directories that say what each step computed.

The workload: 4 requests with prompts of the same length and 6 output tokens each.
"""

import gzip
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import databases
from published_models import BUILT_IN
from shared_files import shared_file

import traceql


@dataclass(frozen=True)
class Workload:
    """How a trace was recorded."""

    trace: str
    model: str
    tp: int
    prompt: int
    first_steps: Sequence[str]  # the requests whose prompts these process
    ep: bool = False
    configured: bool = True  # whether the run directory has the configuration of the model


DENSE = Workload("qwen3-8b-tp1-graph", "qwen3-8b", 1, 512, ("ab", "cd"))
FOUR_RANKS = Workload("qwen3-32b-tp4-graph-nccl", "qwen3-32b", 4, 1024, ("abcd",))
EAGER = Workload("qwen3-0.6b-tp1-eager", "qwen3-0.6b", 1, 512, ("abcd",))
EXPERTS = Workload("qwen3-30b-a3b-tp4-ep-graph", "qwen3-30b-a3b", 4, 512, ("abcd",), ep=True)
_OUTPUTS = 6


def loaded(run: Workload) -> traceql.Trace:
    """The database, opened; skips the test where the traces are not there."""
    return _loaded(run, tuple(databases.files(run.trace)))


@cache
def _loaded(run: Workload, traces: tuple[Path, ...]) -> traceql.Trace:
    def load(database: Path) -> None:
        with tempfile.TemporaryDirectory(dir=database.parent) as folder:
            traceql.load(run_directory(run, traces, Path(folder)), database)

    name = f"{run.trace}-{'workload' if run.configured else 'shapes'}.duckdb"
    return traceql.Trace(shared_file(name, load))


def run_directory(run: Workload, traces: Sequence[Path], folder: Path) -> Path:
    (folder / "traces").mkdir()
    for trace in traces:
        shutil.copyfile(trace, folder / "traces" / trace.name)
    document: dict[str, Any] = {
        "schema_version": 1, "status": "complete", "kind": "vllm-offline", "model": run.model,
        "parallel": {"tp": run.tp, "pp": 1, "dp": 1, "ep": run.ep, "world_size": run.tp},
        "ranks": [
            {"rank": rank, "tp_rank": rank, "trace": f"traces/{trace.name}"}
            for rank, trace in enumerate(traces)
        ],
    }  # fmt: skip
    if run.configured:
        document["model_config"] = json.loads((BUILT_IN / f"{run.model}.json").read_text())
    (folder / "run.json").write_text(json.dumps(document))
    lines = (
        {"rank": rank, "number": number, "begin_unix_ns": begin, "requests": step,
         "computed": {name: before for name, before in computed.items() if name in step}}
        for rank, trace in enumerate(traces)
        # The last step that a trace has is idle.
        for number, ((step, computed), begin) in enumerate(
            zip(_steps(run), _begins(trace), strict=False)
        )
    )  # fmt: skip
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def _begins(trace: Path) -> list[int]:
    """When the engine noted each step: right before it, Unix time in ns."""
    document = json.loads(gzip.decompress(trace.read_bytes()))
    starts = sorted(
        event["ts"]
        for event in document["traceEvents"]
        if event.get("cat") == "user_annotation" and event["name"].startswith("execute_")
    )
    return [document["baseTimeNanoseconds"] + round(1000 * ts) - 50_000 for ts in starts]


def _steps(run: Workload) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Tokens of each request in each step, and before it."""
    computed: dict[str, int] = {}
    steps: list[tuple[dict[str, int], dict[str, int]]] = []
    whole = run.prompt + _OUTPUTS - 1  # the last token is not computed
    while len(computed) < 4 or min(computed.values()) < whole:
        running = {name: 1 for name, tokens in computed.items() if tokens < whole}
        new = run.first_steps[len(steps)] if len(steps) < len(run.first_steps) else ""
        computed |= dict.fromkeys(new, 0)
        step = running | dict.fromkeys(new, run.prompt)
        steps.append((step, dict(computed)))
        computed = {name: tokens + step.get(name, 0) for name, tokens in computed.items()}
    return steps
