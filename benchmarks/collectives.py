"""Records collectives of known sizes, and times them with CUDA events as nccl-tests does.

    torchrun --nproc-per-node 4 benchmarks/collectives.py runs/nccl4

Writes the run directory that traceql loads, and `events.json` beside its run.json: for each
operation and size the mean time in ns of one call on each rank, from events around the whole loop,
while the profiler recorded. What traceql calls transfer must agree with it. The GPU is kept busy
until all calls of a loop are queued, so that the host's launches are no part of it.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

import capture

_SIZES = [2**exponent for exponent in (24, 25, 26, 27, 28)]  # bytes of the larger buffer
_CALLS = 20
_WARMUP = 5
_QUEUEING_CYCLES = 20_000_000  # about 10 ms


def operations(size: int, ranks: int) -> dict[str, Callable[[], dist.Work]]:
    """Each operation over `size` bytes: of all_gather the output, of reduce_scatter the input."""
    whole = torch.ones(size // 2, dtype=torch.bfloat16, device="cuda")
    part = torch.ones(size // 2 // ranks, dtype=torch.bfloat16, device="cuda")
    other = torch.empty_like(whole)
    return {
        "all_reduce": lambda: dist.all_reduce(whole, async_op=True),
        "all_gather": lambda: dist.all_gather_into_tensor(other, part, async_op=True),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, async_op=True),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, async_op=True),
    }


def mean_ns(operation: Callable[[], dist.Work], calls: int) -> float:
    """Mean time of one call, back to back, by CUDA events; one more call before lines up ranks."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(_QUEUEING_CYCLES)
    operation().wait()
    begin.record()
    for _ in range(calls):
        work = operation()
    work.wait()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e6 / calls


def main(folder: Path) -> None:
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank)
    prepared = [(size, operations(size, ranks)) for size in _SIZES]
    for _, named in prepared:
        for operation in named.values():
            mean_ns(operation, _WARMUP)
    measured = []
    with capture.profile(folder):
        for size, named in prepared:
            for name, operation in named.items():
                dist.barrier()
                torch.cuda.synchronize()
                measured.append({"op": name, "bytes": size, "ns": mean_ns(operation, _CALLS)})
    gathered: list[list[dict[str, float]]] = [[] for _ in range(ranks)]
    dist.all_gather_object(gathered, measured)
    if rank == 0:
        rows = [
            {"op": of_ranks[0]["op"], "bytes": of_ranks[0]["bytes"], "calls": _CALLS,
             "ns": [row["ns"] for row in of_ranks]}
            for of_ranks in zip(*gathered, strict=True)
        ]  # fmt: skip
        (folder / "events.json").write_text(json.dumps({"ranks": ranks, "rows": rows}, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
