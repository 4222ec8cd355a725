"""Copies from each GPU of this machine to each other: one direction, and both at once."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import permutations
from typing import Any

import torch

from capture.peaks.gpu import Gpu
from capture.peaks.launching import eager
from capture.peaks.timing import Rounds, timed

# Of the first pair 64 MiB to 1 GiB, of the others one size: eight GPUs have 56 pairs. Both ways
# from 256 MiB, since PyTorch takes 40 us to start a copy and 250 us for two.
_SIZES = (2**26, 2**28, 2**30)
_SIZES_OF_OTHERS = (2**28,)
_BOTH_WAYS_FROM = 2**28


def peer_copies(gpus: Sequence[Gpu]) -> Iterator[dict[str, Any]]:
    """Copies of every pair in both directions; `bytes` counts one direction.

    The two directions at once are measured once for each pair.
    """
    for source, target in permutations(gpus, 2):
        is_first = [source, target] == [*gpus[:2]]
        for size in _SIZES if is_first else _SIZES_OF_OTHERS:
            yield from _of_pair(source, target, size)


def _of_pair(source: Gpu, target: Gpu, size: int) -> Iterator[dict[str, Any]]:
    here, there = (
        torch.randn(size // 2, dtype=torch.bfloat16, device=f"cuda:{gpu.number}")
        for gpu in (source, target)
    )
    shape = {
        "ranks": 2,
        "bytes": here.nbytes,
        "algorithm": "copy",
        "from_gpu": source.number,
        "to_gpu": target.number,
    }
    copy = partial(there.copy_, here, non_blocking=True)
    with torch.cuda.device(source.number):  # whose stream copies, and whose events time it
        one_way = timed(eager([copy]), state=source.state)
    yield {"op": "peer_copy", **shape, **one_way}
    if size >= _BOTH_WAYS_FROM and source.number < target.number:
        both_ways = timed(_both_ways(source, target, here, there), state=source.state)
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
