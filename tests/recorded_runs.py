"""A small run directory, as `traceql capture` writes it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import traces

from capture.metrics import pass_metrics
from capture.workload import Answer, Pass, Request

_MS = 1_000_000


def answer(name: str, sent_ms: int, *token_ms: int) -> Answer:
    times = [t * _MS for t in token_ms]
    return Answer(Request(0, name, [1, 2], len(times)), sent_ms * _MS, times, [], "", "length")


def run_directory(folder: Path) -> Path:
    """Two ranks, whose traces claim to be rank 0 both; two steps each, of requests a and b."""
    base_ns = 1_000_000_000
    for rank in (0, 1):
        traces.write(
            folder / "traces" / f"rank{rank}.pt.trace.json",
            traces.step(ts=0, dur=10, context=(1, 8)),
            traces.launch(ts=1, correlation=1),
            traces.kernel(ts=2, dur=4, correlation=1),
            traces.step(ts=20, dur=10, context=(1, 4), generation=(1, 1)),
            traces.launch(ts=21, correlation=2),
            traces.kernel(ts=22, dur=5, correlation=2),
            baseTimeNanoseconds=base_ns,
            host_name=f"host{rank}",
            distributedInfo={"rank": 0, "world_size": 1},
        )
    ranks = [
        {"rank": n, "dp_rank": n, "tp_rank": 0, "device_uuid": f"GPU-{n}",
         "trace": f"traces/rank{n}.pt.trace.json"}
        for n in (0, 1)
    ]  # fmt: skip
    run = {
        "schema_version": 1, "status": "complete", "kind": "vllm-offline", "model": "m",
        "parallel": {"tp": 1, "pp": 1, "dp": 2, "ep": False, "world_size": 2}, "ranks": ranks,
        "window": {"begin_unix_ns": base_ns, "end_unix_ns": base_ns + 30_000, "iterations": 2},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    steps = [{"a": 8}, {"a": 1, "b": 4}]
    rows = [
        {"rank": 0, "number": n, "begin_unix_ns": base_ns, "requests": requests}
        for n, requests in enumerate(steps)
    ]
    (folder / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = [answer("a", 1000, 1010, 1020), answer("b", 1000, 1030)]
    passes = {"profiled": pass_metrics(Pass(answers, base_ns, base_ns + 40 * _MS), None)}
    (folder / "metrics.json").write_text(json.dumps({"schema_version": 1, "passes": passes}))
    samples = [(base_ns + 1000, 0x4), (base_ns + 2000, 0x1), (base_ns + 60_000, 0x40)]
    pq.write_table(
        pa.Table.from_pylist([
            {"unix_ns": unix_ns, "gpu": 0, "uuid": "GPU-1", "utilization_pct": 50,
             "memory_used_bytes": 7, "temperature_c": 40, "power_mw": 300_000,
             "sm_clock_mhz": 1900, "throttle_reasons": reasons}
            for unix_ns, reasons in samples
        ]),
        folder / "telemetry.parquet",
    )  # fmt: skip
    return folder
