"""Runs the measurements of traceql experiment peaks on a CPU, and prints their rows as JSON.

It needs PyTorch, but no GPU: what CUDA times is timed by the host, and gloo stands for NCCL.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from capture.models import Product
from capture.peaks import collectives, measurements, timing
from capture.peaks.timing import Agree, Gpu, Launch, Rounds, unchanged


def by_host(launches: Sequence[Launch], *, agree: Agree = unchanged) -> Rounds:
    agree([1.0])  # as in_graph does

    def start(rounds: int) -> Callable[[], float]:
        begin = time.perf_counter_ns()
        for _ in range(rounds):
            for launch in launches:
                launch()
        end = time.perf_counter_ns()
        return lambda: float(end - begin)

    return Rounds(start, len(launches))


def set_all(module: ModuleType, **values: object) -> None:
    for name, value in values.items():
        assert hasattr(module, name), name
        setattr(module, name, value)


def two_kernels(work: Rounds, rounds: int, *, meanwhile: Callable[[], object]) -> list[float]:
    """What the profiler sees of launches that have two kernels; the last launch is the fastest."""
    meanwhile()
    launches = rounds * work.launches
    return [40.0, 7.0] * (launches - 1) + [30.0, 5.0]


def bursts() -> dict[str, Any]:
    """How work of two launches that take 0.3 ms is measured, and work that has one kernel less."""
    started: list[int] = []
    rests: list[float] = []
    seen: list[float] = []

    def start(rounds: int) -> Callable[[], float]:
        started.append(rounds)
        return lambda: 300_000.0 * rounds

    def durations(work: Rounds, rounds: int, *, meanwhile: Callable[[], object]) -> list[float]:
        work.start(rounds)()
        return two_kernels(work, rounds, meanwhile=meanwhile)[len(seen) :]

    set_all(timing, _REST_S=0.05, kernel_durations_ns=durations)
    set_all(timing, time=SimpleNamespace(sleep=rests.append))
    work = Rounds(start, 2)
    found: dict[str, Any] = {
        "row": timing.in_bursts(work, state=lambda: {"sm_clock_mhz": len(rests)})
    }
    seen.append(0)
    try:
        timing.in_bursts(work, state=dict)
    except RuntimeError as error:
        found["error"] = str(error)
    return {**found, "started": started, "rests": rests}


def one_device() -> dict[str, Any]:
    set_all(measurements, eager=by_host, _COPY_SIZES=(2**20,))
    set_all(measurements, eager=by_host, in_graph=by_host, LARGE=((64, 128, 32),))
    set_all(timing, _SETTLE_S=0, _REST_S=0, kernel_durations_ns=two_kernels)
    set_all(measurements, DECODE_TOKENS=(1, 4), PREFILL_TOKENS=(16,))
    gpu = Gpu(0)
    of_model = [Product("o_proj", "bf16", 128, 64), Product("lm_head", "bf16", 64, 256)]
    return {
        "memory": list(measurements.memory_bandwidth(gpu, cache_bytes=2**10, memory_bytes=2**30)),
        "products": [
            *measurements.large_products(gpu, "bf16", cache_bytes=2**10),
            *measurements.large_products(gpu, "int8", cache_bytes=2**10),
            *measurements.products_of_model(gpu, of_model, cache_bytes=2**10),
        ],
    }


def group(rank: int, folder: str) -> None:
    def seen(work: Rounds, rounds: int) -> list[float]:
        """What the profiler sees: kernels that wait for the other rank in turn."""
        count = rounds * work.launches
        middle = (20.0 if number % 2 == rank else 70.0 for number in range(count - 2))
        return [900.0, *middle, 15.0]

    def seen_but_one(work: Rounds, rounds: int) -> list[float]:
        return seen(work, rounds)[rank:]

    set_all(collectives, eager=by_host, in_graph=by_host, _SIZES=(2**10, 2**23))
    set_all(collectives, kernel_durations_ns=seen)
    new_group = dist.new_group
    dist.new_group = lambda ranks, backend: new_group(ranks, backend="gloo")
    sys.modules["vllm"] = None  # type: ignore[assignment]  # it has no all-reduce for CPUs
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    rows = list(collectives._of_group(Gpu(rank), 2))
    set_all(collectives, kernel_durations_ns=seen_but_one, _SIZES=(2**10,))
    rows += collectives._of_group(Gpu(rank), 2)
    Path(folder, f"rows{rank}").write_text(json.dumps(rows))
    dist.destroy_process_group()


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(group, args=(folder,), nprocs=2)
        rows = [json.loads(Path(folder, f"rows{rank}").read_text()) for rank in range(2)]
    json.dump({**one_device(), "collectives": rows, "bursts": bursts()}, sys.stdout)


if __name__ == "__main__":
    main()
