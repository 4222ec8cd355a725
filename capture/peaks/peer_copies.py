"""Copies from one GPU of this machine to another: one direction, and both at once."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from capture.peaks.gpu import Gpu
from capture.peaks.launching import eager
from capture.peaks.timing import Rounds, timed

# 64 MiB to 1 GiB, and both ways from 256 MiB: PyTorch takes 40 us to start a copy, 250 us for two.
_SIZES = (2**26, 2**28, 2**30)
_BOTH_WAYS_FROM = 2**28


def peer_copies(gpus: Sequence[Gpu]) -> Iterator[dict[str, Any]]:
    """Copies between the first two GPUs; `bytes` counts one direction."""
    first, second = gpus[:2]
    for size in _SIZES:
        here, there = (
            torch.randn(size // 2, dtype=torch.bfloat16, device=f"cuda:{gpu.number}")
            for gpu in (first, second)
        )
        shape = {"ranks": 2, "bytes": here.nbytes, "algorithm": "copy"}
        copy = partial(there.copy_, here, non_blocking=True)
        one_way = timed(eager([copy]), state=first.state)
        yield {"op": "peer_copy", **shape, **one_way}
        if size >= _BOTH_WAYS_FROM:
            both_ways = timed(_both_ways(first, second, here, there), state=first.state)
            yield {"op": "peer_copy_both", **shape, **both_ways}


def _both_ways(first: Gpu, second: Gpu, here: torch.Tensor, there: torch.Tensor) -> Rounds:
    """Copies in both directions, timed by the host, because two GPUs take part."""
    sources = (here, there)
    targets = (torch.empty_like(there), torch.empty_like(here))
    streams = [[torch.cuda.Stream(gpu.number) for gpu in (first, second)] for _direction in sources]

    def start(rounds: int) -> Callable[[], float]:
        _wait(first, second)
        begin = time.perf_counter_ns()
        for _ in range(rounds):
            for source, target, (on_first, on_second) in zip(
                sources, targets, streams, strict=True
            ):
                with torch.cuda.stream(on_second), torch.cuda.stream(on_first):
                    target.copy_(source, non_blocking=True)

        def finish() -> float:
            _wait(first, second)
            return float(time.perf_counter_ns() - begin)

        return finish

    return Rounds(start, 1)


def _wait(*gpus: Gpu) -> None:
    for gpu in gpus:
        torch.cuda.synchronize(gpu.number)
