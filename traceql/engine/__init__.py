"""Perfetto's trace processor, bundled as WebAssembly or native, with results as Arrow tables."""

from typing import TYPE_CHECKING, Any

from traceql.engine.module_cache import will_compile

if TYPE_CHECKING:
    from traceql.engine.arrow import arrow_table
    from traceql.engine.backend import TraceProcessor
    from traceql.engine.session import open_trace_processor

__all__ = ["TraceProcessor", "arrow_table", "open_trace_processor", "will_compile"]


def __getattr__(name: str) -> Any:
    """Imports on first use: whether the engine is compiled can be seen without wasmtime."""
    if name == "arrow_table":
        from traceql.engine.arrow import arrow_table

        return arrow_table
    if name == "TraceProcessor":
        from traceql.engine.backend import TraceProcessor

        return TraceProcessor
    if name == "open_trace_processor":
        from traceql.engine.session import open_trace_processor

        return open_trace_processor
    raise AttributeError(f"module 'traceql.engine' has no attribute '{name}'")
