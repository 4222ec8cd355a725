"""Answers about real traces, against other calculations on the JSON and against known numbers."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import databases
import pytest
import traces
from databases import (
    OWN,
    OWN_SHORT,
    SHORT,
    FileEvent,
    answers,
    cases,
    document,
    file_events,
    gpu_events,
    rank_files,
    sql,
)
from unions import Activity, Interval, clipped, gpu_activity, length, union

import traceql

Row = dict[str, Any]

# GPU span, busy, communication and overlap in ms, measured by hand; a row per rank.
KNOWN_MS: dict[str, list[tuple[float, float, float, float]]] = {
    "qwen3-8b-tp1-graph": [(105.1, 67.6, 0, 0)],
    "qwen3-32b-tp4-graph-nccl": [(176.2, 166.7, 36.9, 0)],  # of rank 0 only
    "qwen3-30b-a3b-tp4-ep-graph": [
        (116.8, 106.5, 70.2, 0),
        (116.8, 105.7, 71.2, 0),
        (116.8, 105.6, 69.6, 0),
        (116.8, 45.1, 9.8, 0),
    ],
    "qwen3-8b-pp2-graph": [(99.4, 84.5, 51.7, 0.010), (80.9, 53.9, 18.8, 0.127)],
    "qwen3-8b-tp2-graph-serving": [(2182.6, 1510.6, 324.2, 0), (2182.4, 1845.6, 674.1, 0)],
    "mi300x-resnet-training": [(86.6, 84.0, 71.5, 15.9)],
}
# Prompt tokens and generated tokens of each rank: 4 prompts, 6 tokens, of which prefill gives one.
KNOWN_TOKENS = {
    "qwen3-0.6b-tp1-eager": (4 * 512, 4 * 5),
    "qwen3-8b-tp1-graph": (4 * 512, 4 * 5),
    "qwen3-8b-pp2-graph": (4 * 512, 4 * 5),
    "qwen3-32b-tp4-graph-nccl": (4 * 1024, 4 * 5),
    "qwen3-30b-a3b-tp4-ep-graph": (4 * 512, 4 * 5),
}


# --- time.breakdown --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("run", cases())
def test_breakdown_of_ranks_equals_unions_of_the_file(run: str) -> None:
    expected = [
        breakdown_row(file.rank, None, None, activity, activity.window)
        for file in rank_files(run)
        for activity in [gpu_activity(run, file.path)]
    ]
    assert answers(run, "time.breakdown") == expected
    parts = ("exposed_transfer_ns", "exposed_wait_ns", "exposed_unmatched_ns")
    for query in ("overview.run", "comm.overlap"):
        for row, whole in zip(answers(run, query), expected, strict=True):
            if whole["exposed_comm_ns"]:
                assert [row[part] for part in parts] == [whole[part] for part in parts]


@pytest.mark.slow
@pytest.mark.parametrize("run", cases(SHORT))
def test_breakdown_of_steps_equals_unions_of_the_file(run: str) -> None:
    expected = []
    for file in rank_files(run):
        activity = gpu_activity(run, file.path)
        for step in sql(run, STEP_WINDOWS, rank=file.rank):
            start = step["gpu_ts"] - file.offset_ns
            window = (start, start + step["gpu_dur"])
            number, phase = step["step_id"], step["phase"]
            expected.append(breakdown_row(file.rank, phase, number, activity, window))
    assert answers(run, "time.breakdown", by="step") == expected


@pytest.mark.parametrize("run", cases(list(KNOWN_MS)))
def test_known_times_are_found(run: str) -> None:
    ranks = len(KNOWN_MS[run])
    overview, overlap = answers(run, "overview.run")[:ranks], answers(run, "comm.overlap")[:ranks]
    for known, whole, comm in zip(KNOWN_MS[run], overview, overlap, strict=True):
        assert whole["rank"] == comm["rank"]
        busy_ns = whole["window_ns"] - whole["idle_ns"]
        found = (whole["window_ns"], busy_ns, comm["comm_ns"])
        assert tuple(round(value / 1e6, 1) for value in found) == known[:3]
        digits = 3 if 0 < known[3] < 1 else 1
        assert round(comm["overlap_ns"] / 1e6, digits) == known[3]


@pytest.mark.parametrize("run", cases())
def test_each_gap_lies_between_the_kernels_that_it_names(run: str) -> None:
    broken = sql(
        run,
        """
        SELECT gap.ts
        FROM gap
        LEFT JOIN kernel AS previous ON previous_kernel_id = previous.id
        LEFT JOIN kernel AS following ON next_kernel_id = following.id
        WHERE previous.ts + previous.dur IS DISTINCT FROM gap.ts
            OR following.ts IS DISTINCT FROM gap.ts + gap.dur
        """,
    )
    assert broken == []


# --- steps and launches ----------------------------------------------------------------------


@pytest.mark.parametrize("run", cases(OWN))
def test_steps_are_the_annotations_of_the_file(run: str) -> None:
    expected = [
        (file.rank, number, event.name, event.ts + file.offset_ns, event.dur, *counted(event.name))
        for file in rank_files(run)
        for number, event in enumerate(annotations(file.path))
    ]
    found = sql(
        run,
        """
        SELECT
            rank, number, name, ts, dur, phase, context_requests, context_tokens,
            generation_requests, generation_tokens
        FROM step
        ORDER BY rank, number
        """,
    )
    assert [tuple(row.values()) for row in found] == expected


@pytest.mark.parametrize("run", cases(list(KNOWN_TOKENS)))
def test_tokens_are_those_of_the_workload(run: str) -> None:
    found = [
        (row["context_tokens"], row["generation_tokens"]) for row in answers(run, "overview.run")
    ]
    assert set(found) == {KNOWN_TOKENS[run]}


@pytest.mark.parametrize("run", cases(OWN_SHORT))
def test_kernels_belong_to_the_step_and_the_graph_of_their_launch(run: str) -> None:
    found = sql(
        run,
        """
        SELECT kernel.rank, step.number, in_graph, COUNT(*) AS kernels
        FROM kernel
        LEFT JOIN step USING (step_id)
        GROUP BY ALL
        """,
    )
    expected = Counter[tuple[int, int | None, bool]]()
    for file in rank_files(run):
        starts = [event.ts for event in annotations(file.path)]
        for _, call in launched(file.path):
            begun = bisect_right(starts, call.ts)
            number = begun - 1 if begun else None
            expected[file.rank, number, call.name == "cudaGraphLaunch"] += 1
    assert {(r["rank"], r["number"], r["in_graph"]): r["kernels"] for r in found} == expected


@pytest.mark.parametrize("run", cases(OWN_SHORT))
def test_time_in_the_queue_is_from_launch_to_start(run: str) -> None:
    queued = Counter[int]()
    for row in answers(run, "launch.queue"):
        queued[row["rank"]] += row["mean_queued"] * row["dur"]
    assert queued == {
        file.rank: pytest.approx(
            sum(max(0, kernel.ts - call.ts) for kernel, call in launched(file.path)), rel=1e-12
        )
        for file in rank_files(run)
    }


# --- operators, categories, memory -----------------------------------------------------------


@pytest.mark.slow
def test_operators_and_ranges_have_the_gpu_time_launched_while_they_ran(tmp_path: Path) -> None:
    # Of launches at 10, 15, 20 and 20.5 us: a call at the start is inside, one at the end is not.
    file = traces.write(
        tmp_path / "a.json",
        traces.step(context=(0, 0), generation=(1, 1), ts=10, dur=10),
        traces.step(context=(0, 0), generation=(1, 1), ts=20, dur=1),
        traces.host("outer", ts=10, dur=10),
        traces.host("inner", ts=15, dur=2),
        traces.host("inner", ts=18, dur=2),
        traces.launch(ts=10, dur=1, correlation=1),
        traces.launch(ts=15, dur=1, correlation=2),
        traces.launch(ts=20, dur=0.1, correlation=3),
        traces.launch(ts=20.5, dur=0.1, correlation=4),
        traces.kernel(ts=30, dur=1, correlation=1),
        traces.kernel(ts=32, dur=2, correlation=2),
        traces.kernel(ts=35, dur=4, correlation=3),
        traces.kernel(ts=40, dur=8, correlation=4),
    )
    traceql.load([file], tmp_path / "a.duckdb")
    with traceql.Trace(tmp_path / "a.duckdb") as trace:
        operators = trace.run("ops.top").rows()
        ranges = trace.run("annotations.gpu").rows()
    assert {
        row["name"]: (row["calls"], row["total_gpu_ns"], row["host_ns"]) for row in operators
    } == {
        "outer": (1, 3000, 10_000),
        "inner": (2, 2000, 4000),
        "(cudaLaunchKernel)": (0, 15_000, 0),
    }
    (row,) = ranges  # the two steps have one name
    assert (row["calls"], row["kernels"], row["gpu_ns"]) == (2, 4, 15_000)
    assert (row["span_ns"], row["host_ns"]) == (4000 + 13_000, 11_000)


@pytest.mark.parametrize("run", cases(OWN))
def test_kernels_and_categories_share_all_gpu_time(run: str) -> None:
    events = [event for file in rank_files(run) for event in gpu_events(file.path)]
    names = Counter[str]()
    for event in events:
        names[event.name] += event.dur
    kernels = Counter[str]()
    for row in answers(run, "kernels.top", limit=1_000_000):
        kernels[row["name"]] += row["total_ns"]
        assert row["work_ns"] + (row["wait_ns"] or 0) == row["total_ns"]
    assert kernels == names
    categories = {row["category"]: row for row in answers(run, "kernels.by_category")}
    assert sum(row["total_ns"] for row in categories.values()) == names.total()
    assert sum(row["calls"] for row in categories.values()) == len(events)
    assert "other" not in categories or categories["other"]["share_pct"] < 1


@pytest.mark.parametrize("run", cases(["h100-qwen1.5", "mi300x-qwen1.5"]))
def test_memory_peaks_are_those_of_the_allocator(run: str) -> None:
    (file,) = rank_files(run)
    samples = memory_samples(file.path)
    by_device: dict[tuple[str, int], list[Row]] = {}
    for sample in samples:
        by_device.setdefault((sample["type"], sample["device"]), []).append(sample)
    assert by_device
    expected = []
    for (kind, device), events in sorted(by_device.items()):
        peak = max(events, key=lambda e: e["allocated"])
        expected.append(
            {
                "rank": 0,
                "device_type": kind,
                "device": device,
                "peak_bytes": peak["allocated"],
                "ts": peak["ts"] + file.offset_ns,
                "op": innermost_operator(file.path, peak["ts"]),
                "start_bytes": min(events, key=lambda e: e["ts"])["allocated"],
                "reserved_bytes": max(e["reserved"] for e in events),
                "events": len(events),
            }
        )
    assert answers(run, "memory.peak") == expected


# --- the same, calculated from the file ------------------------------------------------------

STEP_WINDOWS = """
    SELECT step_id, phase, gpu_ts, gpu_dur FROM step
    WHERE rank = $rank AND gpu_ts IS NOT NULL
    ORDER BY step_id
"""
_ANNOTATION = re.compile(r"execute_context_(\d+)\((\d+)\)_generation_(\d+)\((\d+)\)")
_DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip"}


def breakdown_row(
    rank: int, phase: str | None, step_id: int | None, activity: Activity, window: Interval
) -> Row:
    """Each class counts where none before it in the list runs."""
    compute, transfer, unmatched, wait, copy, comm = (
        list(clipped(part, window))
        for part in (
            activity.compute, activity.transfer, activity.unmatched, activity.wait, activity.copy,
            activity.comm,
        )
    )  # fmt: skip
    covered: list[int] = []
    together: list[Interval] = []
    for part in (compute, transfer, unmatched, wait, copy):
        together = union([*together, *part])
        covered.append(length(together))
    steps = (after - before for before, after in pairwise([0, *covered]))
    computing, transferring, unknown, waiting, copying = steps
    window_ns = window[1] - window[0]
    overlap = computing + length(comm) - length(union([*compute, *comm]))
    is_known = transferring + waiting > 0 or unknown == 0
    return {
        "rank": rank,
        "device": None,
        "phase": phase,
        "step_id": step_id,
        "window_ns": window_ns,
        "computing_ns": computing,
        "exposed_comm_ns": transferring + waiting + unknown,
        "exposed_transfer_ns": transferring if is_known else None,
        "exposed_wait_ns": waiting if is_known else None,
        "exposed_unmatched_ns": unknown or None,
        "exposed_copy_ns": copying,
        "idle_ns": window_ns - covered[-1],
        "overlap_ns": overlap,
        "overlap_pct": pytest.approx(100 * overlap / length(comm)) if comm else None,
    }


def annotations(path: Path) -> list[FileEvent]:
    """vLLM's iterations, in order of time."""
    found = (e for e in file_events(path) if e.cat == "user_annotation")
    return sorted((e for e in found if _ANNOTATION.fullmatch(e.name)), key=lambda event: event.ts)


def counted(name: str) -> tuple[str, int, int, int, int]:
    """The phase, and requests and tokens of prefill and of decode."""
    found = _ANNOTATION.fullmatch(name)
    assert found
    context, context_tokens, generation, generation_tokens = map(int, found.groups())
    phases = {(True, True): "mixed", (True, False): "prefill", (False, True): "decode"}
    phase = phases.get((context > 0, generation > 0), "idle")
    return phase, context, context_tokens, generation, generation_tokens


def launched(path: Path) -> Iterator[tuple[FileEvent, FileEvent]]:
    """Each GPU activity with the call that launched it, the outer one where two calls nest."""
    calls: dict[int, FileEvent] = {}
    for event in sorted(file_events(path), key=lambda e: (e.ts, -e.dur)):
        if event.cat in ("cuda_runtime", "cuda_driver") and event.args:
            calls.setdefault(event.args["correlation"], event)
    for kernel in gpu_events(path):
        assert kernel.args
        yield kernel, calls[kernel.args["correlation"]]


def memory_samples(path: Path) -> list[Row]:
    return [
        {
            "ts": databases.ns(event["ts"]),
            "type": _DEVICE_TYPES[event["args"]["Device Type"]],
            "device": event["args"]["Device Id"],
            "allocated": event["args"]["Total Allocated"],
            "reserved": event["args"]["Total Reserved"],
        }
        for event in document(path)["traceEvents"]
        if event["ph"] == "i" and event["name"] == "[memory]"
    ]


def innermost_operator(path: Path, ts: int) -> str | None:
    open_then = [e for e in file_events(path) if e.cat == "cpu_op" and e.ts <= ts <= e.ts + e.dur]
    return max(open_then, key=lambda e: e.ts).name if open_then else None
