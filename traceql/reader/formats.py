"""Trace files by the ends of their names."""

import gzip
import zlib
from pathlib import Path

JSON_SUFFIXES = (".json", ".json.gz")
NATIVE_SUFFIXES = (".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz")
_HEAD_BYTES = 256
SUFFIXES = JSON_SUFFIXES + NATIVE_SUFFIXES


def is_native(path: Path) -> bool:
    """True for Perfetto's own format; JSON is told by how it begins, whatever the file's name."""
    return path.name.endswith(NATIVE_SUFFIXES) and not _begins_like_json(path)


def _begins_like_json(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as unpacked:
                head = unpacked.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):  # the reader will say what is wrong
        return False
    return head.lstrip()[:1] in (b"{", b"[")
