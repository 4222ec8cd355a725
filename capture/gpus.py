"""NVIDIA's management library, where the machine has it."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def management_library() -> Iterator[Any | None]:
    """The module pynvml, initialised; None without nvidia-ml-py, a driver or a GPU."""
    nvml = _module()
    try:
        if nvml:
            nvml.nvmlInit()
    except Exception:  # NVMLError, which has a subclass per code: no driver, no permission, ...
        nvml = None
    try:
        yield nvml
    finally:
        if nvml:
            reading(nvml.nvmlShutdown)


def _module() -> Any | None:
    """nvidia-ml-py, else the copy that vLLM ships."""
    for name in ("pynvml", "vllm.third_party.pynvml"):
        with suppress(Exception):
            return importlib.import_module(name)
    return None


def handles(nvml: Any) -> list[Any]:
    """One handle per GPU, in NVML's order."""
    return [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]


def text(value: Any) -> str:
    """NVML's strings are bytes in its older bindings."""
    return value.decode() if isinstance(value, bytes) else str(value)


def reading(function: Any, *arguments: Any) -> Any:
    """What a call of NVML returns; None where this GPU or driver does not support it."""
    with suppress(Exception):
        return function(*arguments)
    return None
