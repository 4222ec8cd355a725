"""Small traces in words: `write(path, kernel("gemm", ts=0, dur=5), launch(...))`."""

import gzip
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import traceql

Event = dict[str, Any]

PID = 100  # of the host process
DEVICE = 0


def kernel(
    name: str = "nvjet_sm90_gemm",
    *,
    ts: float,
    dur: float,
    stream: int = 7,
    correlation: int | None = None,
    cat: str = "kernel",
    device: int = DEVICE,
    **args: Any,
) -> Event:
    """A GPU activity; times in us."""
    args = {"device": device, "stream": stream, **args}
    if correlation is not None:
        args["correlation"] = correlation
    return {
        "ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream,
        "ts": ts, "dur": dur, "args": args,
    }  # fmt: skip


def launch(
    *,
    ts: float,
    dur: float = 1,
    correlation: int,
    name: str = "cudaLaunchKernel",
    tid: int = PID,
    **args: Any,
) -> Event:
    """A runtime call that launches what has the same correlation."""
    return host(name, ts=ts, dur=dur, tid=tid, cat="cuda_runtime", correlation=correlation, **args)


def host(
    name: str, *, ts: float, dur: float, cat: str = "cpu_op", tid: int = PID, **args: Any
) -> Event:
    """An event on a thread of the host."""
    return {
        "ph": "X", "cat": cat, "name": name, "pid": PID, "tid": tid,
        "ts": ts, "dur": dur, "args": args,
    }  # fmt: skip


def step(
    *,
    ts: float,
    dur: float,
    context: tuple[int, int] = (0, 0),
    generation: tuple[int, int] = (0, 0),
) -> Event:
    """A vLLM iteration: (requests, tokens) of prefill and of decode."""
    name = f"execute_context_{context[0]}({context[1]})_generation_{generation[0]}({generation[1]})"
    return host(name, ts=ts, dur=dur, cat="user_annotation")


def flow(phase: str, *, ts: float, pid: int, tid: int, number: int = 1) -> Event:
    """The start (s) or the end (f) of an arrow."""
    return {
        "ph": phase, "cat": "ac2g", "name": "ac2g", "id": number, "pid": pid, "tid": tid,
        "ts": ts, "bp": "e",
    }  # fmt: skip


def write(path: Path, *events: Event, **metadata: Any) -> Path:
    """Writes a trace file, gzipped where its name ends in .gz."""
    text = json.dumps({**metadata, "traceEvents": list(events)}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def hears_ctrl_c() -> None:
    """For a child: a shell that runs the tests in the background has it ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def all_reduce(*, ts: float, dur: float, ranks: Sequence[int], **more: Any) -> Event:
    """An all-reduce of 2 kB, described as the profiler describes it; times in us."""
    given: dict[str, Any] = {
        "Collective name": "allreduce", "Process Group Ranks": str(list(ranks)),
        "Group size": len(ranks), "In msg nelems": 1_000, "Out msg nelems": 1_000,
        "dtype": "BFloat16",
    }  # fmt: skip
    return kernel(ALL_REDUCE, ts=ts, dur=dur, **(given | more))


def loaded(folder: Path, *ranks: Sequence[Event]) -> traceql.Run:
    """The database of these ranks, opened."""
    for rank, events in enumerate(ranks):
        about = {"rank": rank, "world_size": len(ranks)}
        write(folder / "ranks" / f"rank{rank}.json", *events, distributedInfo=about)
    return traceql.open(traceql.load(folder / "ranks", folder / "run.duckdb").database)
