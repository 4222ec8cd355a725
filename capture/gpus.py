"""NVIDIA's management library, where the machine has it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def management_library() -> Iterator[Any | None]:
    """The module pynvml, initialised; None without nvidia-ml-py, a driver or a GPU."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except (ImportError, OSError):
        yield None
        return
    except Exception as error:
        if type(error).__name__.startswith("NVMLError"):
            yield None
            return
        raise
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


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
