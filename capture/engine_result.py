"""What an engine's passes came to: its part of run.json, metrics.json and outputs.jsonl."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from capture.drive import Pass
from capture.errors import CaptureError
from capture.metrics import metrics
from capture.outputs import write_outputs
from capture.plan import Plan
from capture.ranks import collected_ranks, rank_folder
from capture.workload import Workload

# An iteration with a batch of a new size may compile kernels: half a second, where others take
# milliseconds.
_STALL_NS, _STALL_TIMES = 100_000_000, 20


@dataclass(frozen=True)
class Passes:
    """The measured passes: without and with the profiler."""

    unprofiled: Pass
    profiled: Pass


def result(plan: Plan, workload: Workload, passes: Passes) -> dict[str, Any]:
    """Writes both files; what run.json has to say about the passes."""
    ranks = collected_ranks(plan.scratch)
    window = _recorded(plan, "profiled")
    windowed = plan.steps is not None
    measured = metrics(
        passes.profiled,
        passes.unprofiled,
        until_ns=window["end_unix_ns"] if windowed else None,
        unprofiled_until_ns=_recorded(plan, "baseline")["end_unix_ns"] if windowed else None,
    )
    _write_json(plan.folder / "metrics.json", measured)
    write_outputs(plan.folder / "outputs.jsonl", passes.profiled)
    return {
        "ranks": ranks,
        "window": {
            "begin_unix_ns": window["begin_unix_ns"],
            "end_unix_ns": window["end_unix_ns"],
            "iterations": len(window["iterations"]),
            "skip": plan.skip,
            "steps": plan.steps,
        },
        "workload": {
            "mix": workload.mix,
            "seed": workload.seed,
            "requests": len(workload.requests),
            "concurrency": workload.concurrency,
            "warmup_passes": plan.warmup_passes,
        },
        "overhead": _overhead(plan, passes),
        "write_ns": max(noted(plan, rank["rank"], "profiled")["write_ns"] for rank in ranks),
    }


def _overhead(plan: Plan, passes: Passes) -> dict[str, Any]:
    """Profiled against unprofiled, same requests, same process.

    The iterations of the window where it is a part of the pass, else the whole pass.
    """
    if plan.steps is None:
        durations = [p.end_ns - p.begin_ns for p in (passes.profiled, passes.unprofiled)]
        what = "pass"
    else:
        recorded = [_recorded(plan, name) for name in ("profiled", "baseline")]
        durations = [r["end_unix_ns"] - r["begin_unix_ns"] for r in recorded]
        what = "window"
    profiled_ns, unprofiled_ns = durations
    return {
        "measured_over": what,
        "profiled_ns": profiled_ns,
        "unprofiled_ns": unprofiled_ns,
        "overhead_pct": 100 * (profiled_ns / unprofiled_ns - 1),
        "profiled_stall_ns": stall_ns(noted(plan, 0, "profiled")),
        "unprofiled_stall_ns": stall_ns(noted(plan, 0, "baseline")),
    }


def stall_ns(recorded: dict[str, Any]) -> int:
    """The longest iteration, where it is so long that something was compiled in it; else 0."""
    begins = [one["begin_unix_ns"] for one in recorded["iterations"]]
    durations = [later - earlier for earlier, later in pairwise([*begins, recorded["end_unix_ns"]])]
    longest = max(durations, default=0)
    return longest if longest > max(_STALL_NS, _STALL_TIMES * median(durations or [0])) else 0


def noted(plan: Plan, rank: int, name: str) -> dict[str, Any]:
    """What a rank noted of a pass."""
    found: dict[str, Any] = json.loads(
        (rank_folder(plan.scratch, rank) / f"{name}.json").read_text()
    )
    return found


def _recorded(plan: Plan, name: str) -> dict[str, Any]:
    """The first rank's window of a pass."""
    found = noted(plan, 0, name)
    if found["end_unix_ns"] is None:
        raise CaptureError(
            f"the workload took {found['iterations_of_pass']} engine iterations, the window "
            f"begins after --skip {plan.skip}; lower --skip or give more --prompts"
        )
    return found


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
