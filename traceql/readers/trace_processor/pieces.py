"""A trace in pieces that the trace processor takes."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from traceql.errors import TraceNotFound

PIECE_BYTES = 16 << 20  # the engine recognizes the format by the first piece, so that must be large


def pieces(feed: Iterable[bytes] | str | Path) -> Iterator[bytes]:
    """A trace file, or its bytes in pieces of any size, in pieces of at least PIECE_BYTES.

    The last piece may be smaller.
    """
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
