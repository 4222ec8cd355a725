"""Collectives between the GPUs of this machine, with a process for each GPU."""

import json
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from importlib import util
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from capture.gpus import management_library
from capture.peaks.timing import (
    Agree,
    Gpu,
    Launch,
    Rounds,
    eager,
    in_graph,
    kernel_durations_ns,
    timed,
    visible_gpus,
)

_SIZES = tuple(2**n for n in range(10, 31))  # 1 KiB to 1 GiB
_LARGE = 64 * 2**20  # bytes; larger ones take longer than a launch from Python
_TIMEOUT_S = 240
_RESULTS = "results.jsonl"
_MEETING = "meeting"
_PROFILED = 20  # launches, at least


def collectives(gpus: Sequence[Gpu]) -> Iterator[dict[str, Any]]:
    """Collectives of NCCL, and vLLM's own all-reduce if vLLM is installed.

    Raises RuntimeError after a failure of a process; measurements before it are kept.
    """
    with tempfile.TemporaryDirectory(prefix="traceql-peaks-") as folder:
        failure = _run_processes([gpu.number for gpu in gpus], folder)
        results = Path(folder) / _RESULTS
        if results.exists():
            whole, _, _cut = results.read_text().rpartition("\n")
            yield from map(json.loads, whole.splitlines())
    if failure:
        raise RuntimeError(failure)


def _run_processes(numbers: Sequence[int], folder: str) -> str | None:
    context = multiprocessing.get_context("spawn")
    running = [
        context.Process(target=_measure, args=(rank, numbers, folder), daemon=True)
        for rank in range(len(numbers))
    ]
    for process in running:
        process.start()
    until = time.monotonic() + _TIMEOUT_S
    try:
        while any(process.is_alive() for process in running):
            if time.monotonic() > until:
                return f"communication took more than {_TIMEOUT_S} s"
            if any(process.exitcode for process in running):
                break
            time.sleep(0.05)
        for rank, process in enumerate(running):
            if process.exitcode:
                with suppress(OSError):
                    return (Path(folder) / f"error{rank}").read_text()
                return f"the process of GPU {rank} ended"
        return None
    finally:
        for process in running:
            process.kill()
            process.join()


def _measure(rank: int, numbers: Sequence[int], folder: str) -> None:
    """The process of one GPU: measures groups of 2, 4, 8 ... and of all GPUs."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    try:
        torch.cuda.set_device(numbers[rank])
        dist.init_process_group(
            "nccl",
            init_method=f"file://{folder}/{_MEETING}",
            rank=rank,
            world_size=len(numbers),
            timeout=timedelta(seconds=_TIMEOUT_S),
        )
        here = torch.device("cuda", numbers[rank])
        with here, management_library() as nvml, (Path(folder) / _RESULTS).open("a") as results:
            gpu = visible_gpus(nvml)[numbers[rank]] if nvml else Gpu(numbers[rank])
            count = len(numbers)
            powers = (2**n for n in range(1, count.bit_length()) if 2**n < count)
            for size in (*powers, count):
                for found in _of_group(gpu, size):
                    if rank == 0:
                        print(json.dumps(found), file=results, flush=True)
                dist.barrier(device_ids=[numbers[rank]])
        dist.destroy_process_group()
    except Exception as error:
        first, *_ = str(error).strip().splitlines() or [""]
        (Path(folder) / f"error{rank}").write_text(f"{type(error).__name__}: {first}")
        raise SystemExit(1) from None


def _of_group(gpu: Gpu, size: int) -> Iterator[dict[str, Any]]:
    """Measures collectives of the first `size` GPUs; the other ranks yield nothing."""
    members = list(range(size))
    is_member = dist.get_rank() in members
    nccl = dist.new_group(members, backend="nccl")
    if is_member:
        yield from _by_nccl(gpu, size, nccl)
    if util.find_spec("vllm"):
        host = dist.new_group(members, backend="gloo")  # which all processes create
        if is_member:
            yield from _by_vllm(gpu, size, host, nccl)


def _slowest(group: Any) -> Agree:
    """Each duration on the rank where it is longest."""
    return partial(_reduced, group, dist.ReduceOp.MAX)


def _reduced(group: Any, op: Any, values: Sequence[float]) -> Sequence[float]:
    shared = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(shared, op=op, group=group)
    found: list[float] = shared.tolist()
    return found


def _by_nccl(gpu: Gpu, size: int, group: Any) -> Iterator[dict[str, Any]]:
    for length in _SIZES:
        for op, launch in _nccl_launches(length, size, group).items():
            is_large = length > _LARGE
            rounds = eager([launch]) if is_large else in_graph([launch], agree=_slowest(group))
            found = _timed(gpu, rounds, group)
            yield {"op": op, "ranks": size, "bytes": length, "algorithm": "nccl", **found}


def _timed(gpu: Gpu, work: Rounds, group: Any) -> dict[str, Any]:
    """The time between launches, and the duration of the kernel on the last rank that started."""
    found = timed(work, state=gpu.state, agree=_slowest(group))
    kernels = _kernels_ns(work, group)
    return {
        **found,
        "kernel_ns": median(kernels) if kernels else None,
        "fastest_ns": min(kernels, default=None),
    }


def _kernels_ns(work: Rounds, group: Any) -> Sequence[float]:
    """Empty if the profiler does not see one kernel for each launch on each rank."""
    rounds = math.ceil(_PROFILED / work.launches)
    seen = kernel_durations_ns(work, rounds)
    fastest = partial(_reduced, group, dist.ReduceOp.MIN)  # the rank that does not wait
    (all_whole,) = fastest([float(len(seen) == rounds * work.launches)])
    return fastest(seen)[1:] if all_whole else []  # the ranks may start the first apart


def _nccl_launches(length: int, size: int, group: Any) -> dict[str, Launch]:
    """Collectives of buffers of `length` bytes: outputs of all-gather, inputs of reduce-scatter."""
    buffer = torch.zeros(length // 2, dtype=torch.bfloat16)
    part = torch.zeros(length // 2 // size, dtype=torch.bfloat16)
    whole = buffer[: part.numel() * size]
    exchanged = torch.zeros_like(whole)
    all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return {
        "all_reduce": partial(dist.all_reduce, buffer, group=group),
        "all_gather": partial(all_gather, whole, part, group=group),
        "reduce_scatter": partial(reduce_scatter, part, whole, group=group),
        "all_to_all": partial(dist.all_to_all_single, exchanged, whole, group=group),
    }


def _by_vllm(gpu: Gpu, size: int, host: Any, group: Any) -> Iterator[dict[str, Any]]:
    """The all-reduce of vLLM, in CUDA graphs, for the sizes that vLLM uses it for."""
    from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce

    communicator = CustomAllreduce(host, torch.device("cuda", gpu.number))
    for length in _SIZES:
        buffer = torch.zeros(length // 2, dtype=torch.bfloat16)
        if communicator.disabled or not communicator.should_custom_ar(buffer):
            continue
        with communicator.capture():
            launch = partial(communicator.custom_all_reduce, buffer)
            rounds = in_graph([launch], agree=_slowest(group))
        found = _timed(gpu, rounds, group)
        yield {"op": "all_reduce", "ranks": size, "bytes": length, "algorithm": "custom", **found}
