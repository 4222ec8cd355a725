"""The JSON that a trace file holds, gzipped or not."""

import codecs
from collections.abc import Iterator
from pathlib import Path

from isal import isal_zlib

from traceql.errors import TraceCorrupt

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31  # as zlib numbers formats


def json_text(path: Path) -> bytes:
    """A file's text, which begins like JSON.

    Raises:
        TraceCorrupt: damaged gzip, or something else than JSON; the message does not name the file.
    """
    text = _decompressed(path).removeprefix(codecs.BOM_UTF8)
    first = first_byte(text)
    if not first:
        raise TraceCorrupt("empty file; was the process killed before it was written?")
    if first not in b"{[":
        raise TraceCorrupt("not a trace (neither JSON nor a native Perfetto trace)")
    return text


def first_byte(text: bytes) -> bytes:
    """The first byte that is no space, or nothing."""
    return text[:4096].lstrip()[:1]


def _decompressed(path: Path) -> bytes:
    content = path.read_bytes()
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return b"".join(_members(content))
    except (EOFError, isal_zlib.IsalError) as error:
        raise TraceCorrupt(
            f"damaged or truncated gzip ({error}); copy it again or recapture"
        ) from None


def _members(content: bytes) -> Iterator[bytes]:
    """What each gzip member of a file holds; zeros may follow the last."""
    while content.rstrip(b"\0"):
        member = isal_zlib.decompressobj(wbits=_GZIP)
        yield member.decompress(content)
        if not member.eof:
            raise EOFError("it ends before its end-of-stream marker")
        content = member.unused_data
