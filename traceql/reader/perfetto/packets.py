"""Checks that a native Perfetto trace is complete: a sequence of packets, each with its length.

The trace processor does not report a file that ends within a packet.
"""

import gzip
import zlib
from pathlib import Path

from traceql.errors import TraceCorrupt

_GZIP_MAGIC = b"\x1f\x8b"
_PACKET = 0x0A  # field 1 of Trace, length-delimited


def require_whole_packets(path: Path) -> None:
    """Raises:
    TraceCorrupt: the file is empty, damaged, or ends within a packet.
    """
    content = path.read_bytes()
    if not content:
        raise TraceCorrupt(f"{path}: empty file; was the process killed before it was written?")
    if content.startswith(_GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TraceCorrupt(
                f"{path}: damaged or truncated gzip ({error}); copy it again or recapture"
            ) from None
    at = 0
    while at < len(content):
        if content[at] != _PACKET:
            raise TraceCorrupt(f"{path}: not a trace, or damaged at byte {at}")
        size, body = _varint(content, at + 1)
        at = body + size
    if at != len(content):
        raise TraceCorrupt(f"{path}: truncated within a packet; copy it again or recapture")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends; beyond the end if it is cut off."""
    value = shift = 0
    while at < len(content):
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return 1, at
