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
Truth = dict[Place, int | None]  # the layer; None outside layers


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


def load_without_modules(
    recording: Recording, folder: Path, *, configured: bool = False
) -> tuple[Path, Truth]:
    """A database of the recording without its annotated modules, and the layers that they tell.

    The truth has all GPU activities of an eager recording, and none of others.

    Args:
        recording: one of `recordings()`.
        folder: where to write the trace and the database.
        configured: whether to load the model's configuration too.
    """
    trace = json.loads(gzip.decompress(recording.path.read_bytes()))
    events = trace["traceEvents"]
    truth = layers_of_activities(events) if recording.mode == "eager" else {}
    trace["traceEvents"] = [e for e in events if not e["name"].startswith(_MODULE)]
    stripped = folder / f"{recording.name}.json"
    stripped.write_text(json.dumps(trace))
    config = config_file(recording, folder) if configured else None
    database = folder / f"{recording.name}.duckdb"
    return traceql.load(stripped, database, model_config=config).database, truth


def config_file(recording: Recording, folder: Path) -> Path:
    """A config.json of the model; some models name their number of layers in other words there."""
    path = folder / f"{recording.name}.config.json"
    path.write_text(json.dumps({"num_hidden_layers": recording.layers} | recording.config))
    return path


def layers_of_activities(events: list[dict[str, Any]]) -> Truth:
    """The layer in the innermost annotated module around each activity's launch."""
    modules: defaultdict[tuple[Any, Any], list[tuple[float, float, int]]] = defaultdict(list)
    calls: dict[int, dict[str, Any]] = {}
    for e in events:
        if e["cat"] in _CALLS:
            calls.setdefault(e["args"]["correlation"], e)
        elif e["name"].startswith(_MODULE) and (layer := _LAYER.search(e["name"][len(_MODULE) :])):
            module = (e["ts"], e["ts"] + e["dur"], int(layer[1]))
            modules[e["pid"], e["tid"]].append(module)
    for of_thread in modules.values():
        of_thread.sort()
    truth: Truth = {}
    for e in events:
        if e["cat"] in _ON_GPU:
            call = calls[e["args"]["correlation"]]
            begun = modules[call["pid"], call["tid"]]
            begun = begun[: bisect_right(begun, call["ts"], key=lambda module: module[0])]
            around = [layer for _, end, layer in begun if end >= call["ts"]]
            place = (e["args"]["device"], e["args"]["stream"], round(e["ts"] * 1000), e["name"])
            truth[place] = around[-1] if around else None
    return truth
