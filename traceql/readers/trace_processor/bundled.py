"""The bundled engine without the official Perfetto API and protobuf's parser."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from traceql.errors import EngineError, TraceNotFound
from traceql.readers.trace_processor.arrow import last_line
from traceql.readers.trace_processor.wasm import REQUEST_BYTES, WasmEngine
from traceql.util.protobuf_wire import DELIMITED, VARINT, delimited_fields, tag, varint

PIECE_BYTES = 16 << 20  # large, because the engine detects the format in the first piece


def pieces(feed: Iterable[bytes] | str | Path) -> Iterator[bytes]:
    """A trace file, or its bytes in pieces of any size, in pieces of at least PIECE_BYTES."""
    held: list[bytes] = []
    held_bytes = 0
    for chunk in _file_chunks(Path(feed)) if isinstance(feed, str | Path) else feed:
        held.append(chunk)
        held_bytes += len(chunk)
        if held_bytes >= PIECE_BYTES:
            yield held[0] if len(held) == 1 else b"".join(held)
            held.clear()
            held_bytes = 0
    if held_bytes:
        yield b"".join(held)


def _file_chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(PIECE_BYTES):
                yield chunk
    except OSError as error:
        raise TraceNotFound(f"cannot read {path}: {error.strerror}; give a trace file") from error


# A request holds a whole append with its header; the engine copies split requests once more.
APPEND_BYTES = REQUEST_BYTES - (1 << 10)
_APPEND, _FINALIZE, _QUERY = 1, 2, 3  # requests
_MESSAGE = 1  # field number of TraceProcessorRpcStream
# Field numbers of TraceProcessorRpc, and of its arguments and results.
_REQUEST, _FATAL_ERROR = 2, 5
_APPEND_TRACE_DATA, _QUERY_ARGS = 101, 103
_APPEND_RESULT, _QUERY_RESULT, _FINALIZE_RESULT = 201, 203, 212
_SQL, _APPEND_ERROR, _FINALIZE_ERROR = 1, 2, 1


class BundledEngine:
    """Loads a trace, then runs queries; not thread-safe.

    All methods raise EngineError if the engine rejects its input, or stops.
    """

    def __init__(self) -> None:
        self._engine = WasmEngine()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees all memory of the engine."""
        self._engine.close()

    def append(self, data: bytes | memoryview) -> None:
        """Appends the next bytes of the trace."""
        whole = memoryview(data).cast("B")
        for start in range(0, len(whole), APPEND_BYTES):
            piece = whole[start : start + APPEND_BYTES]
            found = replies(self._engine, append_header(len(piece)), piece)
            prefix = "Failed while parsing trace. Error message: "
            _require_no_error(found, _APPEND_RESULT, _APPEND_ERROR, prefix)

    def finish(self) -> None:
        """Finishes the trace before the first query."""
        found = replies(self._engine, _framed(_requested(_FINALIZE)))
        prefix = "Failed while finishing the trace: "
        _require_no_error(found, _FINALIZE_RESULT, _FINALIZE_ERROR, prefix)

    def query_bytes(self, sql: str) -> bytes:
        """A serialised QueryResult; its field `error` reports an error in `sql`."""
        return query_bytes(self._engine, sql)


def query_bytes(engine: WasmEngine, sql: str) -> bytes:
    """A serialised QueryResult: the engine's partial results, which protobuf can merge."""
    text = sql.encode()
    arguments = tag(_SQL, DELIMITED) + varint(len(text)) + text
    head = _requested(_QUERY) + tag(_QUERY_ARGS, DELIMITED) + varint(len(arguments))
    fields = replies(engine, _framed(head + arguments))
    return b"".join(content for number, content in fields if number == _QUERY_RESULT)


def append_header(size: int) -> bytes:
    """The header of `size` bytes of trace in a TraceProcessorRpcStream of one append request."""
    rpc = _requested(_APPEND) + tag(_APPEND_TRACE_DATA, DELIMITED) + varint(size)
    return tag(_MESSAGE, DELIMITED) + varint(len(rpc) + size) + rpc


def replies(engine: WasmEngine, *parts: bytes | memoryview) -> list[tuple[int, memoryview]]:
    """The fields of the replies to a request; raises EngineError if the engine stopped."""
    messages = delimited_fields(memoryview(engine.request(*parts)))
    fields = [field for _, message in messages for field in delimited_fields(message)]
    for number, content in fields:
        if number == _FATAL_ERROR:
            reason = last_line(str(content, "utf-8", "replace"))
            raise EngineError(f"the trace processor stopped: {reason}")
    return fields


def _requested(request: int) -> bytes:
    return tag(_REQUEST, VARINT) + varint(request)


def _framed(rpc: bytes) -> bytes:
    return tag(_MESSAGE, DELIMITED) + varint(len(rpc)) + rpc


def _require_no_error(
    fields: list[tuple[int, memoryview]], result: int, error: int, prefix: str
) -> None:
    """Raises EngineError if a result has an error, with the message of the official API."""
    for number, content in fields:
        if number == result:
            for field, text in delimited_fields(content):
                if field == error and text:
                    reason = last_line(prefix + str(text, "utf-8", "replace"))
                    raise EngineError(f"the trace processor rejected the trace: {reason}")
