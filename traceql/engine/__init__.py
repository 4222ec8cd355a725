"""Perfetto's trace processor, bundled as WebAssembly or native, with results as Arrow tables."""

from traceql.engine.arrow import arrow_table
from traceql.engine.backend import TraceProcessor
from traceql.engine.session import open_trace_processor, will_compile

__all__ = ["TraceProcessor", "arrow_table", "open_trace_processor", "will_compile"]
