"""Latencies of a pass, and the files metrics.json and outputs.jsonl."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from capture.engine_options import Plan
from capture.errors import CaptureError
from capture.run_directory import collected_ranks, rank_folder, write_json
from capture.workload import Answer, Pass, Workload


def write_outputs(path: Path, profiled: Pass) -> None:
    with path.open("w") as file:
        for answer in profiled.answers:
            row = {
                "request_id": answer.request.request_id,
                "prompt": answer.request.prompt,
                "output_token_ids": answer.token_ids,
                "text": answer.text or None,
                "finish_reason": answer.finish_reason,
            }
            file.write(json.dumps(row) + "\n")


PERCENTILES = (50, 90, 99)


def metrics(
    profiled: Pass,
    unprofiled: Pass | None,
    *,
    until_ns: int | None = None,
    unprofiled_until_ns: int | None = None,
) -> Any:
    """The contents of metrics.json.

    Args:
        until_ns: end of the recorded window, Unix time in ns. Later tokens were delayed while
            traces were written and do not count; their requests are not finished.
        unprofiled_until_ns: end of the same steps in the unprofiled pass.
    """
    passes = {"profiled": pass_metrics(profiled, until_ns)}
    if unprofiled:
        passes["unprofiled"] = pass_metrics(unprofiled, unprofiled_until_ns)
    return {"schema_version": 1, "unit": "ns", "passes": passes}


def pass_metrics(measured: Pass, until_ns: int | None) -> dict[str, Any]:
    """The requests of one pass and a summary of them."""
    sent = [a for a in measured.answers if until_ns is None or a.sent_ns < until_ns]
    requests = [_request(answer, until_ns) for answer in sent]
    end_ns = measured.end_ns if until_ns is None else min(until_ns, measured.end_ns)
    return {
        "begin_unix_ns": measured.begin_ns,
        "end_unix_ns": end_ns,
        "requests": requests,
        "summary": summary(requests, end_ns - measured.begin_ns),
    }


def _request(answer: Answer, until_ns: int | None) -> dict[str, Any]:
    times = [t for t in answer.token_ns if until_ns is None or t <= until_ns]
    finished = len(times) == len(answer.token_ns) and bool(times)
    first, last = (times[0], times[-1]) if times else (None, None)
    arrivals, prompt = sorted(set(times)), answer.request.prompt
    return {
        "request_id": answer.request.request_id,
        "sent_unix_ns": answer.sent_ns,
        "first_token_unix_ns": first,
        "last_token_unix_ns": last,
        "finished": finished,
        "finish_reason": answer.finish_reason if finished else None,
        "prompt_tokens": None if isinstance(prompt, str) else len(prompt),
        "output_tokens": len(times),
        "ttft": first - answer.sent_ns if first else None,
        "tpot": round((last - first) / (len(times) - 1)) if first and last and times[1:] else None,
        "e2e": last - answer.sent_ns if last and finished else None,
        "itl": [later - earlier for earlier, later in pairwise(arrivals)],
    }


def summary(requests: Sequence[dict[str, Any]], elapsed_ns: int) -> dict[str, Any]:
    tokens = sum(request["output_tokens"] for request in requests)
    values = {
        name: [r[name] for r in requests if r[name] is not None] for name in ("ttft", "tpot", "e2e")
    }
    values["itl"] = [interval for request in requests for interval in request["itl"]]
    return {
        "requests": len(requests),
        "finished": sum(request["finished"] for request in requests),
        "elapsed": elapsed_ns,
        "output_tokens": tokens,
        "output_tokens_per_s": tokens / (elapsed_ns / 1e9) if elapsed_ns > 0 else None,
        **{name: distribution(found) for name, found in values.items()},
    }


def distribution(values: Sequence[float]) -> dict[str, float] | None:
    """Mean and percentiles (linear interpolation, as in numpy), or None without values."""
    if not values:
        return None
    ordered = sorted(values)
    found = {"mean": math.fsum(ordered) / len(ordered)}
    for percent in PERCENTILES:
        place = (len(ordered) - 1) * percent / 100
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        found[f"p{percent}"] = ordered[low] + (ordered[high] - ordered[low]) * (place - low)
    return found


# A step that compiles kernels for a new batch size takes half a second instead of milliseconds.
_STALL_NS, _STALL_TIMES = 100_000_000, 20


class Passes(NamedTuple):
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
        "workload": workload.facts() | {"warmup_passes": plan.warmup_passes},
        "overhead": _overhead(plan, passes),
        "write_ns": max(pass_notes(plan, rank["rank"], "profiled")["write_ns"] for rank in ranks),
    }


def _overhead(plan: Plan, passes: Passes) -> dict[str, Any]:
    """Compares the profiled with the unprofiled pass: the same requests in the same process.

    With --steps the recorded steps are compared, otherwise the whole passes.
    """
    found: dict[str, Any] = {"measured_over": "pass" if plan.steps is None else "window"}
    for name, measured in (("profiled", passes.profiled), ("unprofiled", passes.unprofiled)):
        found[f"{name}_ns"] = measured.end_ns - measured.begin_ns
        if plan.steps is not None:
            window = _window_notes(plan, name)
            found[f"{name}_ns"] = window["end_unix_ns"] - window["begin_unix_ns"]
        found[f"{name}_stall_ns"] = stall_ns(pass_notes(plan, 0, name))
    return found | {"overhead_pct": 100 * (found["profiled_ns"] / found["unprofiled_ns"] - 1)}


def stall_ns(notes: dict[str, Any]) -> int:
    """Duration of the longest step if kernels were compiled in it, otherwise 0.

    Such a step is much longer than the median step, and longer than a fixed limit.
    """
    begins = [one["begin_unix_ns"] for one in notes["iterations"]]
    durations = [later - earlier for earlier, later in pairwise([*begins, notes["end_unix_ns"]])]
    longest = max(durations, default=0)
    return longest if longest > max(_STALL_NS, _STALL_TIMES * median(durations or [0])) else 0


def pass_notes(plan: Plan, rank: int, name: str) -> dict[str, Any]:
    """Reads the notes of a rank about a pass: its window and its engine iterations."""
    notes: dict[str, Any] = json.loads(
        (rank_folder(plan.scratch, rank) / f"{name}.json").read_text()
    )
    return notes


def _window_notes(plan: Plan, name: str) -> dict[str, Any]:
    """The notes of rank 0 about a pass, whose window must have been opened."""
    found = pass_notes(plan, 0, name)
    if found["end_unix_ns"] is None:
        raise CaptureError(
            f"the workload took only {found['iterations_of_pass']} engine iterations, but "
            f"--skip {plan.skip} skips all of them; lower --skip or raise --prompts"
        )
    return found
