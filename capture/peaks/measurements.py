"""Measures the first GPU, and communication between GPUs; failed measurements are left out."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from statistics import median
from typing import Any

import torch

from capture.models import Product
from capture.peaks.collectives import collectives
from capture.peaks.timing import (
    Gpu,
    Launch,
    Rounds,
    eager,
    in_bursts,
    in_graph,
    kernel_durations_ns,
    settle,
    timed,
)
from capture.supervise import OnPhase

_SIZE = 8192
_AT_ONCE = 20


def warm_up(seconds: float) -> None:
    until = time.monotonic() + seconds
    left, right = (torch.randn(_SIZE, _SIZE, dtype=torch.bfloat16) for _ in range(2))
    while time.monotonic() < until:
        for _ in range(_AT_ONCE):
            torch.mm(left, right)
        torch.cuda.synchronize()


_COPY_SIZES = (2**30, 2**32)  # bytes of a buffer
_CACHES = 4  # a buffer is at least this many times as large as the L2 cache


def memory_bandwidth(gpu: Gpu, *, cache_bytes: int, memory_bytes: int) -> Iterator[dict[str, Any]]:
    """Copies and reads of buffers larger than the cache, up to a quarter of the memory."""
    settle()
    least, most = _CACHES * cache_bytes, memory_bytes // 4
    for size in sorted({min(max(size, least), most) for size in _COPY_SIZES}):
        source = torch.randn(size // 2, dtype=torch.bfloat16)
        target = torch.empty_like(source)
        moved = source.nbytes
        copied = timed(eager([partial(target.copy_, source)]), state=gpu.state)
        yield {"op": "copy", "bytes": 2 * moved, **copied}
        numbers = source[: size // 4 * 2].view(torch.float32)
        read = in_bursts(eager([numbers.sum]), state=gpu.state)
        yield {"op": "read", "bytes": numbers.nbytes, **read}


_NUMBERS = 4096  # 8 KiB, as a token of a model has


def small_kernel(gpu: Gpu) -> dict[str, Any]:
    """The duration of a small kernel in the profiler, as in a trace.

    `period_ns` is the time from kernel to kernel in a CUDA graph. Raises RuntimeError if the
    profiler sees no kernels on this machine.
    """
    numbers = torch.randn(_NUMBERS, dtype=torch.bfloat16)
    rounds = in_graph([lambda: numbers.neg_()])
    period = timed(rounds, state=gpu.state)
    seen = kernel_durations_ns(rounds)[1:]  # the first may wait for the graph
    if not seen:
        raise RuntimeError("the profiler saw no kernels")
    found = median(seen)
    spread = median(abs(one - found) for one in seen)
    clocks = {name: period[name] for name in ("sm_clock_mhz", "throttle_reasons")}
    return {"ns": found, "mad_ns": spread, "period_ns": period["ns"], **clocks}


# Of the first pair 64 MiB to 1 GiB, of the others one size: eight GPUs have 56 pairs. Both ways
# from 256 MiB, since PyTorch takes 40 us to start a copy and 250 us for two.
_PEER_SIZES = (2**26, 2**28, 2**30)
_SIZES_OF_OTHERS = (2**28,)
_BOTH_WAYS_FROM = 2**28


def peer_copies(gpus: Sequence[Gpu]) -> Iterator[dict[str, Any]]:
    """Copies of every pair in both directions; `bytes` counts one direction.

    The two directions at once are measured once for each pair.
    """
    for source, target in permutations(gpus, 2):
        is_first = [source, target] == [*gpus[:2]]
        for size in _PEER_SIZES if is_first else _SIZES_OF_OTHERS:
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
    """Copies in both directions, timed by the host, because two GPUs are involved."""
    pairs = [(here, torch.empty_like(there)), (there, torch.empty_like(here))]
    streams = [[torch.cuda.Stream(gpu.number) for gpu in (first, second)] for _direction in pairs]

    def synchronize() -> None:
        for gpu in (first, second):
            torch.cuda.synchronize(gpu.number)

    def start(rounds: int) -> Callable[[], float]:
        synchronize()
        begin = time.perf_counter_ns()
        for _ in range(rounds):
            for (source, target), (on_first, on_second) in zip(pairs, streams, strict=True):
                with torch.cuda.stream(on_second), torch.cuda.stream(on_first):
                    target.copy_(source, non_blocking=True)

        def finish() -> float:
            synchronize()
            return float(time.perf_counter_ns() - begin)

        return finish

    return Rounds(start, 1)


LARGE = (  # m, k, n: squares, and products of a prefill of a large model
    *((size, size, size) for size in (1024, 2048, 4096, 8192, 16384)),
    (4096, 8192, 28672),
    (4096, 28672, 8192),
    (2048, 12288, 4096),  # with many inputs: the fastest that was found on an H200
)
DECODE_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PREFILL_TOKENS = (1024, 2048, 4096, 8192)
_WEIGHT_CACHES = 4  # the rotating weights are this many times as large as the L2 cache
_HEAT_NS = 4e8  # the power limit acts within a tenth of a second
_SHORT = 2048**3  # multiplications; larger products take longer than a launch from Python
_FP8 = torch.float8_e4m3fn


def large_products(gpu: Gpu, dtype: str, *, cache_bytes: int) -> Iterator[dict[str, Any]]:
    """Large products, in bursts with pauses, and continuously.

    Without pauses, the power limit lowers the clock: by a quarter on an H200.
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
    """Matrices that are used in turn, so that none is in the cache when it is used again.

    Their values are random, because products of zeros take less power and run faster.
    """
    size = k * n * (2 if dtype == "bf16" else 1)
    count = max(2, math.ceil(_WEIGHT_CACHES * cache_bytes / size))
    return [_random(dtype, n, k) for _ in range(count)]


def _random(dtype: str, rows: int, columns: int) -> torch.Tensor:
    """Normally distributed numbers; integers are uniformly distributed."""
    if dtype == "int8":
        return torch.randint(-128, 128, (rows, columns), dtype=torch.int8)
    found = torch.randn(rows, columns, dtype=torch.bfloat16)
    return found.to(_FP8) if dtype == "fp8" else found


def _launches(dtype: str, m: int, k: int, weights: Sequence[torch.Tensor]) -> list[Launch]:
    """A product with each of the matrices; the tokens stay in the cache, as in a model."""
    multiply = _multiply(dtype, _random(dtype, m, k))
    return [partial(multiply, matrix.t()) for matrix in weights]


def _multiply(dtype: str, tokens: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    if dtype == "bf16":
        return partial(torch.mm, tokens)
    if dtype == "int8":
        return partial(torch._int_mm, tokens)
    one = torch.ones((), device=tokens.device)
    return partial(
        torch._scaled_mm,
        tokens,
        scale_a=one,
        scale_b=one,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )


# The first of NVIDIA's GPUs with matrix units for a type; bf16 is measured on all.
_CAPABILITIES = {"bf16": (0, 0), "fp8": (8, 9), "int8": (7, 5)}

_Row = Mapping[str, Any]


def facts(gpu: Gpu) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(gpu.number)
    return {
        "device_name": properties.name,
        "memory_bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size or None,
        "multiprocessors": properties.multi_processor_count,
    }


def measurements(
    gpus: Sequence[Gpu],
    of_model: Sequence[Product],
    *,
    warm_up_s: float,
    on_phase: OnPhase,
    skipped: list[str],
) -> dict[str, Any]:
    """Measures the first GPU, and communication between all GPUs with its name.

    `skipped` gets a sentence for each measurement that fails.
    """
    first, products = gpus[0], list[Mapping[str, Any]]()
    name = torch.cuda.get_device_name(first.number)
    alike = [gpu for gpu in gpus if torch.cuda.get_device_name(gpu.number) == name]
    properties = torch.cuda.get_device_properties(first.number)
    cache, memory = properties.L2_cache_size, properties.total_memory
    capability = torch.cuda.get_device_capability(first.number)

    def attempted(what: str, rows: Iterable[_Row]) -> list[_Row]:
        found = []
        try:
            for one in rows:
                found.append(one)
        except (RuntimeError, NotImplementedError) as error:
            line, *_ = str(error).strip().splitlines() or [type(error).__name__]
            skipped.append(f"{what}: not measured, or not completely: {line}")
        return found

    torch.cuda.set_device(first.number)
    with torch.device("cuda", first.number):
        on_phase("heat", 0, 0)
        warm_up(warm_up_s)
        on_phase("products", 0, 0)
        for dtype in (dtype for dtype, least in _CAPABILITIES.items() if capability >= least):
            found = large_products(first, dtype, cache_bytes=cache)
            products += attempted(f"large {dtype} products", found)
        found = products_of_model(first, of_model, cache_bytes=cache)
        products += attempted("products of the model", found)
        on_phase("memory", 0, 0)
        torch.cuda.empty_cache()  # of the products
        found = memory_bandwidth(first, cache_bytes=cache, memory_bytes=memory)
        bandwidth = attempted("memory", found)
        kernel = attempted("a small kernel", map(small_kernel, [first]))
    communication = []
    if len(alike) > 1:
        on_phase("communication", 0, 0)
        torch.cuda.empty_cache()
        communication += attempted("copies between GPUs", peer_copies(alike))
        torch.cuda.empty_cache()  # for the processes of the collectives
        communication += attempted("collectives", collectives(alike))
    return {
        "kernel": next(iter(kernel), None),
        "memory": bandwidth,
        "products": products,
        "collectives": communication,
    }
