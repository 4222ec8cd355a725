"""The bundled engine: Perfetto's trace processor as WebAssembly, and the functions it imports."""

import calendar
import contextlib
import ctypes
import functools
import mmap
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn, cast

from wasmtime import (
    Engine,
    Func,
    FuncType,
    ImportType,
    Instance,
    Memory,
    Module,
    Store,
    Table,
    Trap,
    ValType,
    WasmtimeError,
)

from traceql.errors import EngineError
from traceql.readers.trace_processor.module_cache import (
    MOVABLE,
    MemoryPlan,
    bundled_wasm,
    compiled,
    memory_plan,
)

ENOSYS = 52  # WASI's number
PAGE_BYTES = 1 << 16
MAX_MEMORY_BYTES = 16 << 30
GROWTH_BYTES = 96 << 20  # the most that is allocated in advance, as Emscripten does
LOG_BYTES = 1 << 14


class Host:
    """The functions that the engine imports, its memory and its log."""

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
            "emscripten_err": lambda text: self._append_log(self._string(text).encode() + b"\n"),
            "emscripten_get_heap_max": lambda: MAX_MEMORY_BYTES,
            "emscripten_resize_heap": self._resize_heap,
            "environ_sizes_get": lambda *pointers: self._zero(*((one, 8) for one in pointers)),
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
        functions = (self._functions.get(item.name or "", _unsupported(item)) for item in types)
        return [
            Func(self._store, cast(FuncType, item.type), function)
            for item, function in zip(types, functions, strict=True)
        ]

    def attach(self, memory: Memory) -> None:
        """Uses `memory`, which exists only once the engine is instantiated."""
        self._memory = memory
        _advise_large_pages(self._base, MAX_MEMORY_BYTES)

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

    def stop_reason(self) -> str:
        """The reason in the log why the engine stopped."""
        if self._denied_bytes:
            return (
                f"out of memory: it needed {self._denied_bytes / 2**30:.1f} GiB; set "
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
        # Read each time, because growing may move the memory.
        return ctypes.addressof(self._attached.data_ptr(self._store).contents)

    def _write(self, pointer: int, data: bytes) -> None:
        ctypes.memmove(self._base + pointer, data, len(data))

    def _string(self, pointer: int) -> str:
        return ctypes.string_at(self._base + pointer).decode("utf-8", "replace")

    def _append_log(self, data: bytes) -> None:
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
        self._append_log(data)
        self._write(written, struct.pack("<Q", len(data)))
        return 0

    def _clock_time_get(self, clock: int, _precision: int, result: int) -> int:
        now_ns = time.monotonic_ns() if clock else time.time_ns()
        self._write(result, struct.pack("<Q", now_ns))
        return 0

    def _zero(self, *places: tuple[int, int]) -> int:
        """Writes zeros at each (pointer, size)."""
        for pointer, size in places:
            self._write(pointer, bytes(size))
        return 0

    def _tzset(self, offset: int, daylight: int, name: int, daylight_name: int) -> None:
        self._zero((offset, 8), (daylight, 4))
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
        raise EngineError(f"the trace processor stopped: {self.stop_reason()}")

    def _assert_fail(self, condition: int, file: int, line: int, _function: int) -> NoReturn:
        where = f"{self._string(file)}:{line}"
        raise EngineError(f"the trace processor stopped: {self._string(condition)} ({where})")


def _unsupported(item: ImportType) -> Callable[..., int | None]:
    """A function that returns ENOSYS: negated for Emscripten's system calls, plain for WASI's."""
    code = ENOSYS if item.module == "wasi_snapshot_preview1" else -ENOSYS
    return lambda *_: code


def _advise_large_pages(address: int, size: int) -> None:
    """Enables large pages on Linux, which avoids a page fault per 4 KiB."""
    with contextlib.suppress(AttributeError, OSError):
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        madvise(address, size, mmap.MADV_HUGEPAGE)


REQUEST_BYTES = 32 << 20

_compiling = threading.Lock()


class WasmEngine:
    """A running trace processor; requests and replies are bytes of a TraceProcessorRpcStream.

    It is not thread-safe. It releases the interpreter lock while it runs.
    """

    def __init__(self) -> None:
        self._reply: list[bytes] = []
        self._stopped = ""
        try:
            self._start(memory_plan())
        except (Trap, WasmtimeError):
            try:
                self._start(MOVABLE)
            except (Trap, WasmtimeError) as error:
                raise EngineError(
                    f"the bundled trace processor cannot start: {_first_line(error)}; give it "
                    "memory, or set TRACEQL_TRACE_PROCESSOR to a native trace_processor_shell"
                ) from error
        self._stopped = ""

    def request(self, *parts: bytes | memoryview) -> bytes:
        """The reply to one request, the concatenation of `parts`, of at most REQUEST_BYTES.

        After an EngineError the engine cannot be used again.
        """
        if self._stopped:
            raise EngineError(self._stopped)
        size = sum(len(part) for part in parts)
        if size > REQUEST_BYTES:
            raise EngineError(f"a request of {size} bytes is too large; split the query")
        window = self._host.window(self._request_pointer, size)
        for part in parts:
            window[: len(part)] = part
            window = window[len(part) :]
        try:
            self._on_request(self._store, size)
        except BaseException as error:  # KeyboardInterrupt, too, stops the engine in the middle
            self._stopped = self._error_message(error)
            self._reply.clear()
            if isinstance(error, Trap | WasmtimeError):
                raise EngineError(self._stopped) from error
            raise
        reply = b"".join(self._reply)
        self._reply.clear()
        return reply

    @property
    def memory_bytes(self) -> int:
        """The memory that the engine has allocated so far; it never shrinks."""
        return self._host.memory_bytes

    def close(self) -> None:
        """Releases all memory. A second call does nothing."""
        self._stopped = "the trace processor is closed; open it again"
        self._host.detach()
        self._store.close()

    def _start(self, plan: MemoryPlan) -> None:
        with _compiling:
            engine, module = _cached_code(plan)
        self._store = Store(engine)
        self._host = Host(self._store)
        try:
            self._instantiate(module)
        except BaseException:
            self.close()
            raise

    def _instantiate(self, module: Module) -> None:
        instance = Instance(self._store, module, self._host.imports(module.imports))
        exports = instance.exports(self._store)
        self._host.attach(cast(Memory, exports["memory"]))
        self._call(exports["emscripten_stack_init"])
        self._call(exports["__wasm_call_ctors"])
        on_reply = Func(self._store, FuncType([ValType.i64(), ValType.i32()], []), self._on_reply)
        slot = cast(Table, exports["__indirect_function_table"]).grow(self._store, 1, on_reply)
        self._request_pointer = self._call(exports["trace_processor_rpc_init"], slot, REQUEST_BYTES)
        self._on_request = cast(Func, exports["trace_processor_on_rpc_request"])

    def _call(self, function: Any, *arguments: int) -> Any:
        return cast(Func, function)(self._store, *arguments)

    def _on_reply(self, pointer: int, size: int) -> None:
        self._reply.append(self._host.read(pointer, size & 0xFFFFFFFF))

    def _error_message(self, error: BaseException) -> str:
        if isinstance(error, EngineError):
            return str(error)
        if isinstance(error, Trap | WasmtimeError):
            return f"the trace processor stopped: {_first_line(error)} ({self._host.stop_reason()})"
        return "the trace processor was interrupted; open it again"


@functools.cache
def _cached_code(plan: MemoryPlan) -> tuple[Engine, Module]:
    return compiled(bundled_wasm(), plan)


def _first_line(error: Trap | WasmtimeError) -> str:
    code = error.trap_code if isinstance(error, Trap) else None
    return code.name.lower().replace("_", " ") if code else str(error).strip().split("\n")[0]
