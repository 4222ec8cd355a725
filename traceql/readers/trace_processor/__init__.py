"""Perfetto's trace processor, bundled as WebAssembly or native, with results as Arrow tables."""

from typing import TYPE_CHECKING, Any

from traceql.readers.trace_processor.module_cache import will_compile

if TYPE_CHECKING:
    from traceql.readers.trace_processor.arrow import Engine, arrow_table
    from traceql.readers.trace_processor.backend import TraceProcessor, open_trace_processor
    from traceql.readers.trace_processor.opening import open_engine

__all__ = [
    "Engine",
    "TraceProcessor",
    "arrow_table",
    "open_engine",
    "open_trace_processor",
    "will_compile",
]


def __getattr__(name: str) -> Any:
    """Imports on first use: whether the engine is compiled can be seen without wasmtime."""
    if name in ("Engine", "arrow_table"):
        from traceql.readers.trace_processor import arrow

        return getattr(arrow, name)
    if name == "open_engine":
        from traceql.readers.trace_processor.opening import open_engine

        return open_engine
    if name == "TraceProcessor":
        from traceql.readers.trace_processor.backend import TraceProcessor

        return TraceProcessor
    if name == "open_trace_processor":
        from traceql.readers.trace_processor.backend import open_trace_processor

        return open_trace_processor
    raise AttributeError(f"module 'traceql.readers.trace_processor' has no attribute '{name}'")
