"""Files of nccl-tests 2.19 and nvbandwidth 0.8, written by hand after the source that writes them.

nccl-tests: src/util.cu and getBw of each test; nvbandwidth: json_output.cpp and testcases_ce.cpp.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CANARY = "HF_TOKEN=hf_canary"

# As each test of nccl-tests computes busbw from algbw.
_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "sendrecv": lambda _n: 1.0,
}


def nccl_row(size: int, time_us: float, factor: float) -> dict[str, Any]:
    """A result of floats; `time_us` is that of the out-of-place run."""
    gbps = size / time_us / 1e3
    times = {"time": time_us, "alg_bw": round(gbps, 6), "bus_bw": round(gbps * factor, 6)}
    return {
        "size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
        "out_of_place": {**times, "nwrong": 0.0},
        "in_place": {**times, "time": time_us * 0.9, "nwrong": 0.0},
        "actual_iterations": 20, "experiment_name": "",
    }  # fmt: skip


def nccl_tests(
    test: str = "all_reduce",
    times_us: Sequence[tuple[int, float]] = ((1024, 12.5), (2**20, 20.0)),
    *,
    ranks: int = 8,
    processes: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """What `TEST_perf -g RANKS -J FILE` writes; of each process, its first device alone."""
    device = {
        "rank": 0, "group": 0, "pid": 77, "hostname": "node0", "device": 0,
        "device_hex": "0000:18:00", "device_info": "NVIDIA H200",
    }  # fmt: skip
    return {
        "version": 3,
        "start_time": "2026-11-22 20:00:00",
        "args": [f"./build/{test}_perf", "-b", "1K", "-e", "1M", "-g", str(ranks), "-J", "x.json"],
        "env": ["PATH=/usr/bin", CANARY],
        "nccl_version": 22809,
        "config": {
            "nthreads": 1, "ngpus": ranks // processes, "minimum_bytes": 1024,
            "maximum_bytes": 2**20, "step_factor": 2, "warmup_iters": 1, "iterations": 20,
            "aggregated_iterations": 1, "validation": 1, "graph": 0,
            "blocking_collectives": "false", "per_iter_timing": "false", "per_iter_skip": 0,
            "parallel_init": "false",
            "devices": [{**device, "rank": rank} for rank in range(processes)],
        },
        "results": [nccl_row(size, us, _FACTORS[test](ranks)) for size, us in times_us],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 100.0, "okay": "unchecked"},
        "errors": [],
        "end_time": "2026-11-22 20:00:30",
        **more,
    }  # fmt: skip


def bandwidth_test(name: str, *matrix: Sequence[float | None]) -> dict[str, Any]:
    """A test of nvbandwidth that passed: numbers are texts, and what was not measured is N/A."""
    return {
        "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
        "bandwidth_matrix": [
            ["N/A" if each is None else f"{each:g}" for each in row] for row in matrix
        ],
        "name": name,
        "status": "Passed",
        "sum": sum(each or 0.0 for row in matrix for each in row),
    }


def nvbandwidth(*tests: dict[str, Any], gpus: int = 2, **more: Any) -> dict[str, Any]:
    """What `nvbandwidth -j` prints."""
    devices = [f"{n}: NVIDIA H200 (00000000:{0x18 + n:x}:00): (node0)" for n in range(gpus)]
    return {
        "nvbandwidth": {
            "CUDA Runtime Version": 13000, "Driver Version": "580.95.05",
            "GPU Device list": devices, "git_version": "v0.8", "testcases": list(tests),
            "version": "v0.8", **more,
        }
    }  # fmt: skip


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path
