"""Recognises JSON and SQLite by how a file begins, compressed or not."""

import gzip
import zlib
from pathlib import Path

from traceql.errors import TraceCorrupt
from traceql.readers.compression import Packing, packing_of

_HEAD_BYTES = 256
_SQLITE = b"SQLite format 3\0"


def begins_like_json(path: Path) -> bool:
    """Whether a file begins with an object or an array; False if it cannot be read."""
    return head(path).lstrip()[:1] in (b"{", b"[")


def begins_like_sqlite(path: Path) -> bool:
    """Whether a file begins like an SQLite database; False if it cannot be read."""
    return head(path).startswith(_SQLITE)


def head(path: Path, size: int = _HEAD_BYTES) -> bytes:
    """The first bytes of the content; none if it cannot be read, which the reader will explain."""
    try:
        with path.open("rb") as file:
            found = file.read(size)
        packing = packing_of(found)
        if packing is Packing.GZIP:
            with gzip.open(path) as unpacked:
                found = unpacked.read(size)
        elif packing:
            from traceql.readers.unpacked import pieces

            found = next(pieces(path, size), b"")
    except (OSError, EOFError, zlib.error, TraceCorrupt):
        return b""
    return found
