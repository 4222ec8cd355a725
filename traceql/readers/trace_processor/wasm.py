"""The bundled engine: Perfetto's trace processor as WebAssembly (memory64), run by wasmtime."""

import functools
import threading
from typing import Any, cast

from wasmtime import (
    Engine,
    Func,
    FuncType,
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
from traceql.readers.trace_processor.host import Host
from traceql.readers.trace_processor.module_cache import (
    MOVABLE,
    MemoryPlan,
    bundled_wasm,
    compiled,
    memory_plan,
)

REQUEST_BYTES = 32 << 20

_compiling = threading.Lock()


class WasmEngine:
    """One running trace processor; requests and replies are bytes of a TraceProcessorRpcStream.

    Two threads must not use it at the same time. It releases the interpreter lock while it works.
    """

    def __init__(self) -> None:
        self._reply: list[bytes] = []
        self._stopped = ""
        plan = memory_plan()
        try:
            self._start(plan)
        except (Trap, WasmtimeError):
            self._start_movable()
        self._stopped = ""

    def request(self, *parts: bytes | memoryview) -> bytes:
        """The reply to one request, which consists of `parts` laid end to end.

        The request must fit in REQUEST_BYTES. After an EngineError the engine cannot be used
        again.
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
        except BaseException as error:  # KeyboardInterrupt, too, stops the engine half way
            self._stopped = self._epitaph(error)
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

    def _start_movable(self) -> None:
        try:
            self._start(MOVABLE)
        except (Trap, WasmtimeError) as error:
            raise EngineError(
                f"the bundled trace processor cannot start: {_first_line(error)}; give it memory, "
                "or set TRACEQL_TRACE_PROCESSOR to a native trace_processor_shell"
            ) from error

    def _start(self, plan: MemoryPlan) -> None:
        engine, module = _code(plan)
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

    def _epitaph(self, error: BaseException) -> str:
        if isinstance(error, EngineError):
            return str(error)
        if isinstance(error, Trap | WasmtimeError):
            return f"the trace processor stopped: {_first_line(error)} ({self._host.complaint()})"
        return "the trace processor was interrupted; open it again"


def _code(plan: MemoryPlan) -> tuple[Engine, Module]:
    with _compiling:
        return _code_once(plan)


@functools.cache
def _code_once(plan: MemoryPlan) -> tuple[Engine, Module]:
    return compiled(bundled_wasm(), plan)


def _first_line(error: Trap | WasmtimeError) -> str:
    code = error.trap_code if isinstance(error, Trap) else None
    return code.name.lower().replace("_", " ") if code else str(error).strip().split("\n")[0]
