"""Opens the engine that readers query: the bundled one by itself, or a native trace processor."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from traceql.readers.trace_processor.bundled import BundledEngine, pieces
from traceql.readers.trace_processor.module_cache import native_binary

if TYPE_CHECKING:
    from traceql.readers.trace_processor.backend import TraceProcessor


def open_engine(
    feed: Iterable[bytes] | str | Path, *, trace_processor: str | Path | None = None
) -> "BundledEngine | TraceProcessor":
    """An engine that has loaded `feed`; the arguments and errors are those of a trace processor.

    See `traceql.readers.trace_processor.backend.open_trace_processor`.
    """
    if native_binary(trace_processor):
        from traceql.readers.trace_processor.backend import open_trace_processor

        return open_trace_processor(feed, trace_processor=trace_processor)
    engine = BundledEngine()
    try:
        for piece in pieces(feed):
            engine.append(piece)
        engine.finish()
    except BaseException:
        engine.close()
        raise
    return engine
