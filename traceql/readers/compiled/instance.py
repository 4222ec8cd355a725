"""Runs a module of this folder."""

import atexit
import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDER = Path(__file__).resolve().parent
Bytes = npt.NDArray[np.uint8]


class Instance:
    """A module with a memory of its own. Two threads must not use it at the same time."""

    def __init__(self, code: tuple[Any, Any]) -> None:
        from wasmtime import Instance as Instantiated
        from wasmtime import Store

        engine, module = code
        self._store = Store(engine)
        self._exports: Any = Instantiated(self._store, module, []).exports(self._store)
        self._memory: Any = self._exports["memory"]

    def call(self, function: str, *arguments: int) -> int:
        """Calls an exported function, which may move the memory."""
        result: int = self._exports[function](self._store, *arguments)
        return result & 0xFFFFFFFF  # pointers come as signed integers

    def memory(self) -> Bytes:
        """The memory as it is until the next call."""
        address = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        size: int = self._memory.data_len(self._store)
        found: Bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        return found

    def numbers(self, at: int, count: int) -> list[int]:
        """Integers of 32 bits that lie in the memory."""
        found: list[int] = self.memory()[at : at + 4 * count].view(np.uint32).tolist()
        return found


def new_instance(name: str) -> Instance | None:
    """A new instance; None if this machine cannot run it, so that Python must do its work."""
    try:
        return Instance(_code(name))
    except Exception:  # whatever wasmtime raises, or that it is missing
        return None


@cache
def _code(name: str) -> tuple[Any, Any]:
    from wasmtime import Config, Engine, Module

    config = Config()
    config.cranelift_opt_level = "speed"
    engine = Engine(config)
    return engine, Module.from_file(engine, str(FOLDER / f"{name}.wasm"))


atexit.register(_code.cache_clear)  # while wasmtime is still there to release it
