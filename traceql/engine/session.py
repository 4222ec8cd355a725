"""Opens a trace processor, bundled or native, and feeds it a trace."""

import os
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from pathlib import Path

from traceql.engine.backend import TraceProcessor
from traceql.engine.messages import last_line
from traceql.engine.module_cache import TRACE_PROCESSOR_VARIABLE, native_binary
from traceql.engine.perfetto_api import PerfettoException, api
from traceql.errors import EngineError, TraceNotFound

PIECE_BYTES = 16 << 20  # the engine recognizes the format by the first piece, so that must be large


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
    chunks = _file_chunks(Path(feed)) if isinstance(feed, str | Path) else feed
    try:
        tp._parse_trace(_pieces(chunks))
    except PerfettoException as error:
        reason = last_line(str(error))
        raise EngineError(f"the trace processor rejected the trace: {reason}") from error
    except (HTTPException, ConnectionError) as error:
        raise EngineError(
            f"the trace processor went away while loading ({error}); is there enough memory?"
        ) from error


def _file_chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(PIECE_BYTES):
                yield chunk
    except OSError as error:
        raise TraceNotFound(f"cannot read {path}: {error.strerror}; give a trace file") from error


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at least PIECE_BYTES, except for the last."""
    held: list[bytes] = []
    held_bytes = 0
    for chunk in chunks:
        held.append(chunk)
        held_bytes += len(chunk)
        if held_bytes >= PIECE_BYTES:
            yield held[0] if len(held) == 1 else b"".join(held)
            held.clear()
            held_bytes = 0
    if held_bytes:
        yield b"".join(held)
