"""Checks that a native Perfetto trace is complete.

A trace is a sequence of packets, each preceded by its length. The trace processor does not report a
file that ends within a packet, so this does.
"""

import gzip
import zlib
from pathlib import Path

from traceql.errors import TraceCorrupt
from traceql.protobuf.wire import DELIMITED, tag, varint_at

_GZIP_MAGIC = b"\x1f\x8b"
(_PACKET,) = tag(1, DELIMITED)  # field 1 of the message Trace


def require_whole_packets(path: Path) -> None:
    """Reads the lengths of all packets of a trace file, gzipped or not.

    Raises:
        TraceCorrupt: the file is empty or damaged, or ends within a packet.
    """
    content = _unpacked(path)
    at = 0
    try:
        while at < len(content):
            if content[at] != _PACKET:
                raise TraceCorrupt(f"{path}: not a trace, or damaged at byte {at}")
            size, body = varint_at(content, at + 1)
            at = body + size
        is_whole = at == len(content)
    except IndexError:  # the file ends within a length
        is_whole = False
    if not is_whole:
        raise TraceCorrupt(f"{path}: truncated within a packet; copy it again or record it again")


def _unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    if not content:
        raise TraceCorrupt(f"{path}: empty file; was the process killed before it was written?")
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceCorrupt(
            f"{path}: damaged or truncated gzip ({error}); copy it again or record it again"
        ) from None
