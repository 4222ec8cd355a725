"""Small recordings of many models, of one GPU each; tests/make_recordings.py says what they keep.

For tests: `@pytest.mark.parametrize("recording", recordings("eager"), ids=str)`.
"""

import gzip
import json
import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import traceql

FOLDER = Path(__file__).with_name("recordings")
_MODULE = "module: "
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)(?:\.|$)")
_CALLS = ("cuda_runtime", "cuda_driver")
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")

Place = tuple[int, int, int, str]  # device, stream, ts and name, as in the table kernel


@dataclass(frozen=True)
class Recording:
    """A trace of one rank.

    Attributes:
        name: such as gemma2-eager; the other recording of gemma2 is gemma2-graph, if there is one.
        mode: eager (its modules are annotated) or graph.
        layers: number of layers that the model ran with.
        config: what of the model's configuration tells one layer from another.
    """

    name: str
    path: Path
    mode: str
    model_type: str
    layers: int
    config: dict[str, Any] = field(repr=False, hash=False)

    def __str__(self) -> str:
        return self.name


@cache
def recordings(mode: str | None = None) -> tuple[Recording, ...]:
    """By name; all, or those of a mode."""
    index = json.loads((FOLDER / "index.json").read_text())
    return tuple(
        Recording(
            name, FOLDER / f"{name}.json.gz", of["mode"], of["model_type"], of["layers"],
            of["config"],
        )
        for name, of in index.items()
        if mode in (None, of["mode"])
    )  # fmt: skip


def load_without_modules(recording: Recording, folder: Path, *, configured: bool = False) -> Path:
    """A database of the recording without its annotated modules, written to the folder.

    Args:
        recording: one of `recordings()`.
        folder: where to write the trace and the database.
        configured: whether to load the model's configuration too.
    """
    trace = json.loads(gzip.decompress(recording.path.read_bytes()))
    trace["traceEvents"] = [e for e in trace["traceEvents"] if not e["name"].startswith(_MODULE)]
    stripped = folder / f"{recording.name}.json"
    stripped.write_text(json.dumps(trace))
    config = None
    if configured:  # some models name their number of layers in other words there
        config = folder / f"{recording.name}.config.json"
        config.write_text(json.dumps({"num_hidden_layers": recording.layers} | recording.config))
    database = folder / f"{recording.name}.duckdb"
    return traceql.load(stripped, database, model_config=config).database


@cache
def modules_of_activities(recording: Recording) -> dict[Place, list[str]]:
    """The annotated modules around each activity's launch, the innermost one last."""
    begun: defaultdict[tuple[Any, Any], list[tuple[float, float, str]]] = defaultdict(list)
    calls: dict[int, dict[str, Any]] = {}
    events = json.loads(gzip.decompress(recording.path.read_bytes()))["traceEvents"]
    for e in events:
        if e["cat"] in _CALLS:
            calls.setdefault(e["args"]["correlation"], e)
        elif e["name"].startswith(_MODULE):
            module = (e["ts"], -e["ts"] - e["dur"], e["name"][len(_MODULE) :])
            begun[e["pid"], e["tid"]].append(module)
    for of_thread in begun.values():
        of_thread.sort()
    found: dict[Place, list[str]] = {}
    for e in events:
        if e["cat"] in _ON_GPU:
            call = calls[e["args"]["correlation"]]
            ranges = begun[call["pid"], call["tid"]]
            ranges = ranges[: bisect_right(ranges, call["ts"], key=lambda one: one[0])]
            place = (e["args"]["device"], e["args"]["stream"], round(e["ts"] * 1000), e["name"])
            found[place] = [name for _, end, name in ranges if -end >= call["ts"]]
    return found


@cache
def layers_by_module(recording: Recording) -> dict[Place, int | None]:
    """The layer of each activity by the innermost module that is in one; None outside layers."""
    return {
        place: next((int(n[1]) for name in reversed(names) if (n := _LAYER.search(name))), None)
        for place, names in modules_of_activities(recording).items()
    }
