"""The bandwidth of a GPU's memory: a copy, and reading alone."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from capture.peaks.gpu import Gpu
from capture.peaks.launching import eager
from capture.peaks.profiled import in_bursts
from capture.peaks.timing import settle, timed

_SIZES = (2**30, 2**32)  # bytes of a buffer
_CACHES = 4  # a buffer has at least so many times the size of the L2 cache


def memory_bandwidth(gpu: Gpu, *, cache_bytes: int, memory_bytes: int) -> Iterator[dict[str, Any]]:
    """Copies and reads of buffers that the cache cannot hold and a quarter of the memory can."""
    settle()
    least, most = _CACHES * cache_bytes, memory_bytes // 4
    for size in sorted({min(max(size, least), most) for size in _SIZES}):
        source = torch.randn(size // 2, dtype=torch.bfloat16)
        target = torch.empty_like(source)
        moved = source.nbytes
        copied = timed(eager([partial(target.copy_, source)]), state=gpu.state)
        yield {"op": "copy", "bytes": 2 * moved, **copied}
        numbers = source[: size // 4 * 2].view(torch.float32)
        read = in_bursts(eager([numbers.sum]), state=gpu.state)
        yield {"op": "read", "bytes": numbers.nbytes, **read}
