"""Opens a trace processor, bundled or native, and feeds it a trace."""

import os
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path

from traceql.errors import EngineError
from traceql.readers.trace_processor.backend import TraceProcessor
from traceql.readers.trace_processor.messages import last_line
from traceql.readers.trace_processor.module_cache import TRACE_PROCESSOR_VARIABLE, native_binary
from traceql.readers.trace_processor.perfetto_api import PerfettoException, api
from traceql.readers.trace_processor.pieces import pieces


def open_trace_processor(
    feed: Iterable[bytes] | str | Path | None = None,
    *,
    trace_processor: str | Path | None = None,
) -> TraceProcessor:
    """A trace processor that has loaded `feed`.

    Args:
        feed: a trace file, or its bytes in pieces of any size.
        trace_processor: a native `trace_processor_shell` to use instead of the bundled one; by
            default what the environment variable TRACEQL_TRACE_PROCESSOR names.

    Raises:
        EngineError: the engine does not start or rejects the trace.
    """
    native = native_binary(trace_processor)
    tp = _native(Path(native)) if native else TraceProcessor()
    if feed is None:
        return tp
    try:
        _load(tp, feed)
    except BaseException:
        tp.close()
        raise
    return tp


def _native(binary: Path) -> TraceProcessor:
    choice = (
        f"set {TRACE_PROCESSOR_VARIABLE} to a native trace_processor_shell, "
        "or unset it to use the bundled one"
    )
    binary = binary.expanduser()
    if not binary.is_file():
        raise EngineError(f"no trace processor at {binary}; {choice}")
    if not os.access(binary, os.X_OK):
        raise EngineError(f"{binary} is not executable; chmod +x it")
    try:
        return TraceProcessor(config=api.TraceProcessorConfig(bin_path=str(binary)))
    except (PerfettoException, OSError) as error:
        said = str(error).partition("\nIf this is a slow machine")[0]
        raise EngineError(f"{binary} does not start ({last_line(said)}); {choice}") from error


def _load(tp: TraceProcessor, feed: Iterable[bytes] | str | Path) -> None:
    try:
        tp._parse_trace(pieces(feed))
    except PerfettoException as error:
        reason = last_line(str(error))
        raise EngineError(f"the trace processor rejected the trace: {reason}") from error
    except (HTTPException, ConnectionError) as error:
        raise EngineError(
            f"the trace processor went away while loading ({error}); is there enough memory?"
        ) from error
