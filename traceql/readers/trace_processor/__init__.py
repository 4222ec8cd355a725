"""Perfetto's trace processor, bundled as WebAssembly or native, with results as Arrow tables."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceql.readers.trace_processor.module_cache import native_binary, will_compile

if TYPE_CHECKING:
    from traceql.readers.trace_processor.arrow import Engine, arrow_table
    from traceql.readers.trace_processor.backend import TraceProcessor, open_trace_processor
    from traceql.readers.trace_processor.bundled import BundledEngine

__all__ = [
    "Engine",
    "TraceProcessor",
    "arrow_table",
    "open_engine",
    "open_trace_processor",
    "will_compile",
]


_MODULES = {
    **dict.fromkeys(("Engine", "arrow_table"), "arrow"),
    **dict.fromkeys(("TraceProcessor", "open_trace_processor"), "backend"),
}


def __getattr__(name: str) -> Any:
    """Imports on first use; `will_compile` does not need wasmtime."""
    if name not in _MODULES:
        raise AttributeError(f"module 'traceql.readers.trace_processor' has no attribute '{name}'")
    module = import_module(f"traceql.readers.trace_processor.{_MODULES[name]}")
    return getattr(module, name)


def open_engine(
    feed: Iterable[bytes] | str | Path, *, trace_processor: str | Path | None = None
) -> "BundledEngine | TraceProcessor":
    """An engine that has loaded `feed`, with the arguments of `open_trace_processor`."""
    if native_binary(trace_processor):
        from traceql.readers.trace_processor.backend import open_trace_processor

        return open_trace_processor(feed, trace_processor=trace_processor)
    from traceql.readers.trace_processor.bundled import BundledEngine, pieces

    engine = BundledEngine()
    try:
        for piece in pieces(feed):
            engine.append(piece)
        engine.finish()
    except BaseException:
        engine.close()
        raise
    return engine
