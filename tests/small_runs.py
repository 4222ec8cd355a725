"""Runs of several ranks in words: `loaded(folder, [kernel(...), ...], [all_reduce(...), ...])`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import traces
from traces import Event

import traceql

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def all_reduce(*, ts: float, dur: float, ranks: Sequence[int], **more: Any) -> Event:
    """An all-reduce of 2 kB, described as the profiler describes it; times in us."""
    given: dict[str, Any] = {
        "Collective name": "allreduce", "Process Group Ranks": str(list(ranks)),
        "Group size": len(ranks), "In msg nelems": 1_000, "Out msg nelems": 1_000,
        "dtype": "BFloat16",
    }  # fmt: skip
    return traces.kernel(ALL_REDUCE, ts=ts, dur=dur, **(given | more))


def loaded(folder: Path, *ranks: Sequence[Event]) -> traceql.Trace:
    """The database of these ranks, opened."""
    for rank, events in enumerate(ranks):
        about = {"rank": rank, "world_size": len(ranks)}
        traces.write(folder / "ranks" / f"rank{rank}.json", *events, distributedInfo=about)
    return traceql.open(traceql.load(folder / "ranks", folder / "run.duckdb").database)
