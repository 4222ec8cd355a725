"""Products of matrices: large ones, and those of a model's decode and prefill steps."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from capture.peaks.gpu import Gpu
from capture.peaks.launching import Launch, eager, in_graph
from capture.peaks.model_products import Product
from capture.peaks.profiled import in_bursts
from capture.peaks.timing import settle, timed

LARGE = (  # m, k, n: squares, and products of a prefill of a large model
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16384, 16384, 16384),
    (4096, 8192, 28672),
    (4096, 28672, 8192),
    (2048, 12288, 4096),  # with many inputs: the fastest that was found on an H200
)
DECODE_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PREFILL_TOKENS = (1024, 2048, 4096, 8192)
_CACHES = 4  # weights that rotate have together so many times the size of the L2 cache
_HEAT_NS = 4e8  # the limit of power acts within a tenth of a second
_SHORT = 2048**3  # multiplications; Python launches larger products faster than the GPU works
_FP8 = torch.float8_e4m3fn


def large_products(gpu: Gpu, dtype: str, *, cache_bytes: int) -> Iterator[dict[str, Any]]:
    """Large products, in bursts with pauses, and one after the other without a pause.

    Without pauses, the limit of power lowers the clock: by a quarter on an H200.
    """
    for m, k, n in LARGE:
        started = in_graph if m * k * n <= _SHORT else eager
        rounds = started(_launches(dtype, m, k, _weights(dtype, k, n, cache_bytes)))
        shape = {"dtype": dtype, "m": m, "k": k, "n": n, "role": None}
        settle()
        yield {**shape, "load": "burst", **in_bursts(rounds, state=gpu.state)}
        yield {**shape, "load": "sustained", **timed(rounds, state=gpu.state, heat_ns=_HEAT_NS)}


def products_of_model(
    gpu: Gpu, products: Sequence[Product], *, cache_bytes: int
) -> Iterator[dict[str, Any]]:
    """The model's products over numbers of tokens; lm_head sees one token of each request."""
    for one in products:
        settle()
        weights = _weights(one.dtype, one.k, one.n, cache_bytes)
        shape = {"dtype": one.dtype, "k": one.k, "n": one.n, "role": one.role}
        for m in DECODE_TOKENS:
            rounds = in_graph(_launches(one.dtype, m, one.k, weights))
            found = timed(rounds, state=gpu.state)
            yield {**shape, "m": m, "load": "sustained", **found}
        for m in () if one.role == "lm_head" else PREFILL_TOKENS:
            rounds = eager(_launches(one.dtype, m, one.k, weights))
            yield {**shape, "m": m, "load": "burst", **in_bursts(rounds, state=gpu.state)}


def _weights(dtype: str, k: int, n: int, cache_bytes: int) -> list[torch.Tensor]:
    """Matrices that are used in turn, so that the cache holds none of them when its turn comes.

    Their values are random, because products of zeros take less power and run faster.
    """
    count = max(2, math.ceil(_CACHES * cache_bytes / (k * n * _bytes(dtype))))
    return [_random(dtype, n, k) for _ in range(count)]


def _bytes(dtype: str) -> int:
    return 2 if dtype == "bf16" else 1


def _random(dtype: str, rows: int, columns: int) -> torch.Tensor:
    """Normally distributed numbers; integers are of all sizes alike."""
    if dtype == "int8":
        return torch.randint(-128, 128, (rows, columns), dtype=torch.int8)
    found = torch.randn(rows, columns, dtype=torch.bfloat16)
    return found.to(_FP8) if dtype == "fp8" else found


def _launches(dtype: str, m: int, k: int, weights: Sequence[torch.Tensor]) -> list[Launch]:
    """A product with each of the matrices; the tokens stay in the cache, as in a model."""
    multiply = _multiply(dtype, _random(dtype, m, k))
    return [partial(multiply, matrix.t()) for matrix in weights]


def _multiply(dtype: str, tokens: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    if dtype == "int8":
        return partial(torch._int_mm, tokens)
    return _fp8(tokens) if dtype == "fp8" else partial(torch.mm, tokens)


def _fp8(tokens: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    one = torch.ones((), device=tokens.device)
    return partial(
        torch._scaled_mm,
        tokens,
        scale_a=one,
        scale_b=one,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )
