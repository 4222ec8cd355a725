"""The functions that the engine, an Emscripten module, imports: clocks, a log and more memory.

There is no file system, environment or network: the engine sees only what it is sent.
"""

import calendar
import contextlib
import ctypes
import mmap
import struct
import time
from collections.abc import Callable
from typing import NoReturn, cast

from wasmtime import Func, FuncType, ImportType, Memory, Store, WasmtimeError

from traceql.errors import EngineError

ENOSYS = 52  # WASI's number
PAGE_BYTES = 1 << 16
MAX_MEMORY_BYTES = 16 << 30
GROWTH_BYTES = 96 << 20  # the most that is allocated in advance, as Emscripten does
LOG_BYTES = 1 << 14


class Host:
    """The functions that the engine imports; they access its memory and keep its log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._memory: Memory | None = None
        self._log = b""
        self._denied_bytes = 0
        self._functions: dict[str, Callable[..., int | float | None]] = {
            "emscripten_get_now": lambda: time.perf_counter() * 1e3,
            "emscripten_date_now": lambda: time.time() * 1e3,
            "clock_time_get": self._clock_time_get,
            "fd_write": self._fd_write,
            "emscripten_err": self._err,
            "emscripten_get_heap_max": lambda: MAX_MEMORY_BYTES,
            "emscripten_resize_heap": self._resize_heap,
            "environ_sizes_get": self._environ_sizes_get,
            "environ_get": lambda *_: 0,
            "_tzset_js": self._tzset,
            "_gmtime_js": self._utc_fields,
            "_localtime_js": self._utc_fields,
            "_timegm_js": self._utc_seconds,
            "_abort_js": self._abort,
            "__assert_fail": self._assert_fail,
        }

    def imports(self, types: list[ImportType]) -> list[Func]:
        """A function for each import, in order; unsupported ones return "not implemented"."""
        return [
            Func(self._store, cast(FuncType, item.type), self._function(item)) for item in types
        ]

    def attach(self, memory: Memory) -> None:
        """Uses `memory`, which exists only once the engine is instantiated."""
        self._memory = memory
        _ask_for_large_pages(self._base, MAX_MEMORY_BYTES)

    def detach(self) -> None:
        """Drops all references that keep the engine's memory alive."""
        self._memory = None
        self._functions.clear()

    @property
    def memory_bytes(self) -> int:
        """The memory that the engine has allocated so far."""
        return self._attached.data_len(self._store)

    def read(self, pointer: int, size: int) -> bytes:
        """A copy of `size` bytes of the engine's memory."""
        return ctypes.string_at(self._base + pointer, size)

    def window(self, pointer: int, size: int) -> memoryview:
        """`size` writable bytes of the engine's memory, valid until the engine runs again."""
        return memoryview((ctypes.c_ubyte * size).from_address(self._base + pointer)).cast("B")

    def complaint(self) -> str:
        """Why the engine stopped, according to its log."""
        if self._denied_bytes:
            return (
                f"out of memory: it asked for {self._denied_bytes / 2**30:.1f} GiB; set "
                "TRACEQL_TRACE_PROCESSOR to a native trace_processor_shell, or use a bigger machine"
            )
        lines = self._log.decode("utf-8", "replace").replace("\r", "\n").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")

    @property
    def _attached(self) -> Memory:
        if self._memory is None:
            raise EngineError("the trace processor is closed; open it again")
        return self._memory

    @property
    def _base(self) -> int:
        # Read again each time, because growing may move the memory.
        return ctypes.addressof(self._attached.data_ptr(self._store).contents)

    def _function(self, item: ImportType) -> Callable[..., int | float | None]:
        return self._functions.get(item.name or "", _unsupported(item))

    def _write(self, pointer: int, data: bytes) -> None:
        ctypes.memmove(self._base + pointer, data, len(data))

    def _string(self, pointer: int) -> str:
        return ctypes.string_at(self._base + pointer).decode("utf-8", "replace")

    def _say(self, data: bytes) -> None:
        self._log = (self._log + data)[-LOG_BYTES:]

    def _resize_heap(self, wanted: int) -> int:
        size = self.memory_bytes
        generous = min(wanted + GROWTH_BYTES, max(wanted, size + size // 5), MAX_MEMORY_BYTES)
        for target in (generous, wanted):
            try:
                self._attached.grow(self._store, max(0, -(-(target - size) // PAGE_BYTES)))
            except WasmtimeError:
                continue
            return 1
        self._denied_bytes = wanted
        return 0

    def _fd_write(self, _fd: int, vectors: int, count: int, written: int) -> int:
        data = b"".join(
            self.read(*struct.unpack("<QQ", self.read(vectors + 16 * i, 16))) for i in range(count)
        )
        self._say(data)
        self._write(written, struct.pack("<Q", len(data)))
        return 0

    def _err(self, message: int) -> None:
        self._say(self._string(message).encode() + b"\n")

    def _clock_time_get(self, clock: int, _precision: int, result: int) -> int:
        now_ns = time.monotonic_ns() if clock else time.time_ns()
        self._write(result, struct.pack("<Q", now_ns))
        return 0

    def _environ_sizes_get(self, count: int, size: int) -> int:
        self._write(count, bytes(8))
        self._write(size, bytes(8))
        return 0

    def _tzset(self, offset: int, daylight: int, name: int, daylight_name: int) -> None:
        self._write(offset, bytes(8))
        self._write(daylight, bytes(4))
        self._write(name, b"UTC\0")
        self._write(daylight_name, b"UTC\0")

    def _utc_fields(self, seconds: int, result: int) -> None:
        t = time.gmtime(seconds)
        weekday = (t.tm_wday + 1) % 7  # C counts from Sunday
        date = (t.tm_mday, t.tm_mon - 1, t.tm_year - 1900, weekday, t.tm_yday - 1)
        self._write(result, struct.pack("<10i", t.tm_sec, t.tm_min, t.tm_hour, *date, 0, 0))

    def _utc_seconds(self, fields: int) -> int:
        second, minute, hour, day, month, year = struct.unpack("<6i", self.read(fields, 24))
        return calendar.timegm((year + 1900, month + 1, day, hour, minute, second))

    def _abort(self) -> NoReturn:
        raise EngineError(f"the trace processor stopped: {self.complaint()}")

    def _assert_fail(self, condition: int, file: int, line: int, _function: int) -> NoReturn:
        where = f"{self._string(file)}:{line}"
        raise EngineError(f"the trace processor stopped: {self._string(condition)} ({where})")


def _unsupported(item: ImportType) -> Callable[..., int | None]:
    """A function that returns ENOSYS: negated for Emscripten's system calls, plain for WASI's."""
    code = ENOSYS if item.module == "wasi_snapshot_preview1" else -ENOSYS
    return lambda *_: code


def _ask_for_large_pages(address: int, size: int) -> None:
    """Asks Linux for large pages, which avoids a page fault per 4 KiB; does nothing elsewhere."""
    with contextlib.suppress(AttributeError, OSError):
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        madvise(address, size, mmap.MADV_HUGEPAGE)
