"""All measurements, in order; one that fails is left out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from capture.peaks.collectives import collectives
from capture.peaks.gpu import Gpu
from capture.peaks.memory import memory_bandwidth
from capture.peaks.model_products import Product
from capture.peaks.peer_copies import peer_copies
from capture.peaks.products import large_products, products_of_model
from capture.peaks.small_kernel import small_kernel
from capture.peaks.warm_up import warm_up
from capture.phases import OnPhase

# The first of NVIDIA's GPUs with matrix units for a type; bf16 is measured on all.
_CAPABILITIES = {"bf16": (0, 0), "fp8": (8, 9), "int8": (7, 5)}

_Rows = list[Mapping[str, Any]]


def facts(gpu: Gpu) -> dict[str, Any]:
    """What CUDA says of a GPU."""
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
    """Those of the first GPU, and communication among all of its name.

    Args:
        of_model: products of a model that are measured too.
        skipped: gets a sentence for each measurement that fails.
    """
    first = gpus[0]
    name = torch.cuda.get_device_name(first.number)
    alike = [gpu for gpu in gpus if torch.cuda.get_device_name(gpu.number) == name]
    torch.cuda.set_device(first.number)
    with torch.device("cuda", first.number):
        on_phase("heat", 0, 0)
        warm_up(warm_up_s)
        on_phase("products", 0, 0)
        products = _products(first, of_model, skipped)
        on_phase("memory", 0, 0)
        memory = _memory(first, skipped)
        kernel = None
        with _attempted("a small kernel", skipped):
            kernel = small_kernel(first)
    communication: _Rows = []
    if len(alike) > 1:
        on_phase("communication", 0, 0)
        communication = _communication(alike, skipped)
    return {
        "kernel": kernel,
        "memory": memory,
        "products": products,
        "collectives": communication,
    }


def _products(gpu: Gpu, of_model: Sequence[Product], skipped: list[str]) -> _Rows:
    cache = torch.cuda.get_device_properties(gpu.number).L2_cache_size
    capability = torch.cuda.get_device_capability(gpu.number)
    found: _Rows = []
    for dtype in (dtype for dtype, first in _CAPABILITIES.items() if capability >= first):
        with _attempted(f"large {dtype} products", skipped):
            _extend(found, large_products(gpu, dtype, cache_bytes=cache))
    with _attempted("products of the model", skipped):
        _extend(found, products_of_model(gpu, of_model, cache_bytes=cache))
    return found


def _memory(gpu: Gpu, skipped: list[str]) -> _Rows:
    properties = torch.cuda.get_device_properties(gpu.number)
    sizes = {
        "cache_bytes": properties.L2_cache_size,
        "memory_bytes": properties.total_memory,
    }
    found: _Rows = []
    torch.cuda.empty_cache()  # of the products
    with _attempted("memory", skipped):
        _extend(found, memory_bandwidth(gpu, **sizes))
    return found


def _communication(gpus: Sequence[Gpu], skipped: list[str]) -> _Rows:
    found: _Rows = []
    torch.cuda.empty_cache()
    with _attempted("copies between GPUs", skipped):
        _extend(found, peer_copies(gpus))
    torch.cuda.empty_cache()  # for the processes of the collectives
    with _attempted("collectives", skipped):
        _extend(found, collectives(gpus))
    return found


def _extend(rows: _Rows, found: Iterable[Mapping[str, Any]]) -> None:
    """Adds rows one by one, so that those before a failure stay."""
    for one in found:
        rows.append(one)


@contextmanager
def _attempted(what: str, skipped: list[str]) -> Iterator[None]:
    """Turns a failure of the block, such as too little memory, into a sentence."""
    try:
        yield
    except (RuntimeError, NotImplementedError) as error:
        first, *_ = str(error).strip().splitlines() or [type(error).__name__]
        skipped.append(f"{what}: not measured, or not completely: {first}")
