"""Reads the text of a trace file, compressed or not, piece by piece."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from traceql.errors import TraceCorrupt

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31  # zlib's number for the gzip format
_GZIP_RATIO = 8  # about how much smaller gzip makes a profiler trace


def pieces(path: Path, size: int) -> Iterator[bytes]:
    """The text of a file in pieces of about `size` bytes, without a byte order mark.

    Raises:
        TraceCorrupt: damaged gzip; the message does not name the file.
    """
    with path.open("rb") as file:
        magic = file.read(len(_GZIP_MAGIC))
        file.seek(0)
        if magic == _GZIP_MAGIC:
            found = _decompressed(file, max(1, size // _GZIP_RATIO))
        else:
            found = _raw_pieces(file, size)
        start = b""
        while len(start) < len(codecs.BOM_UTF8) and (piece := next(found, None)) is not None:
            start += piece
        yield start.removeprefix(codecs.BOM_UTF8)
        yield from found


def _raw_pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while piece := file.read(size):
        yield piece


def _decompressed(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The text of a gzip file, which may have several members and zeros at the end."""
    member = None
    try:
        for piece in _raw_pieces(file, size):
            left = piece
            while left := left if member else left.lstrip(b"\0"):
                member = member or isal_zlib.decompressobj(wbits=_GZIP)
                yield member.decompress(left)
                left = member.unused_data
                if member.eof:
                    member = None
        if member:
            raise EOFError("it ends before its end-of-stream marker")
    except (EOFError, isal_zlib.IsalError) as error:
        raise TraceCorrupt(
            f"damaged or truncated gzip ({error}); copy it again or record it again"
        ) from None
