"""Makes the small recordings of tests/recordings from run directories of `traceql capture`.

    python tests/make_recordings.py RUN_DIRECTORY...

A recording keeps what layers and roles are found by, as a trace that `traceql load` reads:

- The first two steps with each annotation, or only the first if that would be many events: prompts,
  tokens, a mix of both, the end of the run. Steps are whole: a step has the calls that launched
  something between its start and the start of the next step, and what they launched.
- The copies, memory sets and kernels of these steps, with device, stream, correlation, grid, block,
  bytes and the numbers of their CUDA graph and its node.
- Ranges named "module: ..." around such a call, as `traceql capture --annotate layers` records.
- The device's name, the rank and the world size.

All else is dropped: operators, flows, names of processes, other annotations, calls that launched
nothing. Times are exact, but count from the first event that is kept; correlations are numbered
again, in the order of the calls. Calls and GPU activities are sorted by name, which makes the files
smaller; those with the same name are in the order of the original file. What runs on the GPU
between the steps that are kept is missing, so that idle time in a recording means nothing.

The index has for each recording how it ran, and what of the model's configuration tells one layer
from another.
"""

import gzip
import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

Event = dict[str, Any]

RECORDINGS = Path(__file__).with_name("recordings")
INDEX = "index.json"
MANY = 1500  # GPU activities

_STEP = re.compile(r"execute_(\d+_)?context_\d+\(.*\)_generation_\d+\(")
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_CALLS = ("cuda_runtime", "cuda_driver")
_ARGUMENTS = (
    "device", "stream", "grid", "block", "bytes", "graph id", "graph node id", "correlation",
)  # fmt: skip
_CONFIGURATION = re.compile(
    r"architectures|model_type|hidden_(size|act|activation)|(moe_)?intermediate_size"
    r"|shared_expert_intermediate_size|head_dim|tie_word_embeddings|sliding_window"
    r"|num_hidden_layers|num_(attention|key_value)_heads|num_.*experts.*|n_.*_experts|layer_types"
    r"|layers_block_type|first_k_dense_replace|mlp_only_layers|moe_layers|moe_layer_freq"
    r"|decoder_sparse_step|interleave_moe_layer_step|(expert|attn)_layer_(period|offset)"
    r"|full_attn_idxs|full_attention_interval|no_rope_layers|kv_lora_rank|q_lora_rank"
    r"|linear_attn_config|attn_logit_softcapping|qkv_bias"
)


def main(folders: Sequence[Path]) -> None:
    RECORDINGS.mkdir(exist_ok=True)
    index_path = RECORDINGS / INDEX
    index = json.loads(index_path.read_text()) if index_path.exists() else {}
    for folder in folders:
        run = json.loads((folder / "run.json").read_text())
        mode = "eager" if run["eager"] else "graph"
        name = f"{folder.name}-{mode}"
        (file,) = (folder / "traces").glob("*.json.gz")
        # Exact times: a float has too few digits for microseconds since boot.
        trace = json.loads(gzip.decompress(file.read_bytes()), parse_float=Decimal)
        text = json.dumps(recording(trace), separators=(",", ":"))
        packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
        (RECORDINGS / f"{name}.json.gz").write_bytes(packed)
        config = run["model_config"]
        index[name] = {
            "mode": mode,
            "model_type": config["model_type"],
            "layers": sum(rank["layers"] for rank in run["ranks"]),
            "vllm": run["versions"]["vllm"],
            "config": {
                key: value
                for key, value in config.items()
                if _CONFIGURATION.fullmatch(key) and value is not None
            },
        }
        print(f"{name}: {len(packed):,} bytes")
    lines = (f"{json.dumps(name)}: {json.dumps(index[name])}" for name in sorted(index))
    index_path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recording(trace: dict[str, Any]) -> dict[str, Any]:
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    steps = steps_of(slices)
    kept_steps = first_of_each_name(steps, 2)
    calls, on_gpu = launched_in(slices, steps, kept_steps)
    if len(on_gpu) > MANY:
        kept_steps = first_of_each_name(steps, 1)
        calls, on_gpu = launched_in(slices, steps, kept_steps)
    modules = modules_around(slices, calls)
    numbers = {e["args"]["correlation"]: n for n, e in enumerate(calls, 1)}
    kept = [*kept_steps, *modules, *by_name(calls), *by_name(on_gpu)]
    begin = min(nanoseconds(e["ts"]) for e in kept)
    job = trace["distributedInfo"]
    used = {e["args"]["device"] for e in on_gpu}
    return {
        "schemaVersion": trace["schemaVersion"],
        "deviceProperties": [
            {key: d[key] for key in ("id", "name")}
            for d in trace["deviceProperties"]
            if d["id"] in used
        ],
        "distributedInfo": {key: job[key] for key in ("rank", "world_size")},
        "displayTimeUnit": "ms",
        "traceEvents": [small(event, begin, numbers) for event in kept],
    }


def by_name(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda e: (e["cat"], e["name"]))


def steps_of(slices: Iterable[Event]) -> list[Event]:
    """In the order of time."""
    found = [e for e in slices if e.get("cat") == "user_annotation" and _STEP.match(e["name"])]
    if not found:
        raise SystemExit("a trace without steps; record it with traceql capture")
    return sorted(found, key=lambda e: e["ts"])


def first_of_each_name(steps: Sequence[Event], count: int) -> list[Event]:
    by_name: defaultdict[str, list[Event]] = defaultdict(list)
    for step in steps:
        by_name[step["name"]].append(step)
    return [step for step in steps if any(step is one for one in by_name[step["name"]][:count])]


def launched_in(
    slices: Sequence[Event], steps: Sequence[Event], kept: Sequence[Event]
) -> tuple[list[Event], list[Event]]:
    """The calls of the steps to keep that launched something, and what they launched."""
    starts = [step["ts"] for step in steps]
    is_kept = [any(step is one for one in kept) for step in steps]
    on_gpu = [e for e in slices if e.get("cat") in _ON_GPU]
    launching = {e["args"]["correlation"] for e in on_gpu}
    calls = []
    for event in slices:
        if event.get("cat") in _CALLS and event["args"]["correlation"] in launching:
            step = bisect_right(starts, event["ts"]) - 1
            if step >= 0 and is_kept[step]:
                calls.append(event)
    made = {e["args"]["correlation"] for e in calls}
    return calls, [e for e in on_gpu if e["args"]["correlation"] in made]


def modules_around(slices: Iterable[Event], calls: Iterable[Event]) -> Iterator[Event]:
    times: defaultdict[tuple[Any, Any], list[Decimal]] = defaultdict(list)
    for call in calls:
        times[call["pid"], call["tid"]].append(call["ts"])
    for thread in times.values():
        thread.sort()
    for event in slices:
        if event.get("cat") == "user_annotation" and event["name"].startswith("module: "):
            thread = times[event["pid"], event["tid"]]
            first = bisect_left(thread, event["ts"])
            if first < len(thread) and thread[first] <= event["ts"] + event["dur"]:
                yield event


def small(event: Event, begin: int, numbers: dict[int, int]) -> Event:
    given = event.get("args", {})
    args = {key: given[key] for key in _ARGUMENTS if key in given}
    if "correlation" in args:
        args["correlation"] = numbers[args["correlation"]]
    return {
        "ph": "X",
        "cat": event["cat"],
        "name": event["name"],
        "pid": event["pid"],
        "tid": event["tid"],
        "args": args,
        "dur": nanoseconds(event["dur"]) / 1000,
        "ts": (nanoseconds(event["ts"]) - begin) / 1000,
    }


def nanoseconds(microseconds: Decimal | int) -> int:
    return round(microseconds * 1000)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
