"""Writes the results of the passes: metrics.json, outputs.jsonl and a part of run.json."""

import json
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from capture.drive import Pass
from capture.errors import CaptureError
from capture.files import write_json
from capture.metrics import metrics
from capture.outputs import write_outputs
from capture.plan import Plan
from capture.ranks import collected_ranks, rank_folder
from capture.workload import Workload

# A step with a new batch size may compile kernels: it takes half a second instead of milliseconds.
_STALL_NS, _STALL_TIMES = 100_000_000, 20


@dataclass(frozen=True)
class Passes:
    """The two measured passes, without and with the profiler."""

    unprofiled: Pass
    profiled: Pass


def write_results(plan: Plan, workload: Workload, passes: Passes) -> dict[str, Any]:
    """Writes metrics.json and outputs.jsonl; returns the facts about the passes for run.json."""
    ranks = collected_ranks(plan.scratch)
    window = _window_notes(plan, "profiled")
    windowed = plan.steps is not None
    measured = metrics(
        passes.profiled,
        passes.unprofiled,
        until_ns=window["end_unix_ns"] if windowed else None,
        unprofiled_until_ns=_window_notes(plan, "unprofiled")["end_unix_ns"] if windowed else None,
    )
    write_json(plan.folder / "metrics.json", measured)
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
        "write_ns": max(pass_notes(plan, rank["rank"], "profiled")["write_ns"] for rank in ranks),
    }


def _overhead(plan: Plan, passes: Passes) -> dict[str, Any]:
    """Compares the profiled with the unprofiled pass: the same requests in the same process.

    With --steps the recorded steps are compared, otherwise the whole passes.
    """
    if plan.steps is None:
        durations = [p.end_ns - p.begin_ns for p in (passes.profiled, passes.unprofiled)]
        what = "pass"
    else:
        windows = [_window_notes(plan, name) for name in ("profiled", "unprofiled")]
        durations = [w["end_unix_ns"] - w["begin_unix_ns"] for w in windows]
        what = "window"
    profiled_ns, unprofiled_ns = durations
    return {
        "measured_over": what,
        "profiled_ns": profiled_ns,
        "unprofiled_ns": unprofiled_ns,
        "overhead_pct": 100 * (profiled_ns / unprofiled_ns - 1),
        "profiled_stall_ns": stall_ns(pass_notes(plan, 0, "profiled")),
        "unprofiled_stall_ns": stall_ns(pass_notes(plan, 0, "unprofiled")),
    }


def stall_ns(notes: dict[str, Any]) -> int:
    """Duration of the longest step if kernels were compiled in it, otherwise 0.

    A step counts as such if it is much longer than both a fixed limit and the median step.
    """
    begins = [one["begin_unix_ns"] for one in notes["iterations"]]
    durations = [later - earlier for earlier, later in pairwise([*begins, notes["end_unix_ns"]])]
    longest = max(durations, default=0)
    return longest if longest > max(_STALL_NS, _STALL_TIMES * median(durations or [0])) else 0


def pass_notes(plan: Plan, rank: int, name: str) -> dict[str, Any]:
    """Reads what a rank wrote about a pass: its window and its engine iterations."""
    found: dict[str, Any] = json.loads(
        (rank_folder(plan.scratch, rank) / f"{name}.json").read_text()
    )
    return found


def _window_notes(plan: Plan, name: str) -> dict[str, Any]:
    """The notes of rank 0 about a pass, whose window must have been opened."""
    found = pass_notes(plan, 0, name)
    if found["end_unix_ns"] is None:
        raise CaptureError(
            f"the workload took only {found['iterations_of_pass']} engine iterations, but "
            f"--skip {plan.skip} skips all of them; lower --skip or raise --prompts"
        )
    return found
