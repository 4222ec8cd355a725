"""Recognises JSON by how a file begins, compressed or not."""

import gzip
import zlib
from pathlib import Path

_HEAD_BYTES = 256


def begins_like_json(path: Path) -> bool:
    """Whether a file begins with an object or an array; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as unpacked:
                head = unpacked.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):  # the reader will say what is wrong
        return False
    return head.lstrip()[:1] in (b"{", b"[")
