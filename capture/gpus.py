"""Access to NVML, NVIDIA's management library, on machines that have it."""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def management_library() -> Iterator[Any | None]:
    """Yields the initialised module pynvml, or None without nvidia-ml-py, a driver or a GPU."""
    nvml = _module()
    try:
        if nvml:
            nvml.nvmlInit()
    except Exception:  # NVMLError has a subclass per code: no driver, no permission, ...
        nvml = None
    try:
        yield nvml
    finally:
        if nvml:
            value_or_none(nvml.nvmlShutdown)


def _module() -> Any | None:
    """nvidia-ml-py, or else the copy that is part of vLLM."""
    for name in ("pynvml", "vllm.third_party.pynvml"):
        with suppress(Exception):
            return importlib.import_module(name)
    return None


def handles(nvml: Any) -> list[Any]:
    """One handle per GPU, in NVML's order."""
    return [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]


def decoded(value: Any) -> str:
    """A text from NVML; older versions of the bindings return bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def value_or_none(function: Any, *arguments: Any) -> Any:
    """The value of an NVML call, or None if this GPU or driver does not support the call."""
    with suppress(Exception):
        return function(*arguments)
    return None


def largest_gpu_bytes() -> int | None:
    """Memory of the largest GPU of this machine; None if unknown."""
    with management_library() as nvml:
        sizes = (
            [value_or_none(nvml.nvmlDeviceGetMemoryInfo, h) for h in handles(nvml)] if nvml else []
        )
    return max((size.total for size in sizes if size), default=None)


def visible_gpus() -> int:
    """How many GPUs a process that is started here would see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    with management_library() as nvml:
        return len(handles(nvml)) if nvml else 0
