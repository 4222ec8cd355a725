"""Recognises Ascend traces by their content: names of tracks and arrows that no other has."""

import re
from collections import deque
from itertools import islice, pairwise
from pathlib import Path

from traceql.errors import TraceCorrupt
from traceql.readers.formats.ascend.layout import OUTPUTS, is_slice
from traceql.readers.unpacked import pieces

_PIECE_BYTES = 1 << 18
_END_PIECES = 4  # at the start and at the end of a file
_BLANKS = b"\xef\xbb\xbf \t\r\n"
# Microseconds of Unix time. No other profiler writes them as text.
_TIME = re.compile(rb'"ts"\s*:\s*(?P<quote>"?)-?[0-9]{16}(\.[0-9]+)?"?')
# An object is what other profilers write. PyTorch's own has its version before the events, so that
# long files need not be looked through.
_WRAPPED, _OF_PYTORCH = b'"traceEvents"', b'"schemaVersion"'
# What is in no other trace: names of tracks and categories of arrows.
_WORDS = re.compile(
    rb'"(Ascend Hardware|CANN|HCCL|Overlap Analysis|async_npu|async_task_queue|AscendCL@[^"]*)"'
)
_DUMP = re.compile(rb'"pid"\s*:\s*"[^"]*aclGraph[_0-9]*"')


def is_ascend(path: Path) -> bool:
    """Whether a file is a trace of Ascend, or what is refused: a slice, or the dump of a graph."""
    try:
        return _is_ascend(path)
    except (OSError, TraceCorrupt):  # which the reader that gets the file explains
        return False


def is_graph_dump(path: Path) -> bool:
    """Whether a file shows a captured graph, with invented times."""
    return _DUMP.search(_head(path)) is not None


def _is_ascend(path: Path) -> bool:
    starts = (piece.lstrip(_BLANKS) for piece in pieces(path, 1 << 12))
    first = next(filter(None, starts), b"")[:1]
    if first not in (b"[", b"{") or is_slice(path):
        return first in (b"[", b"{")
    head = _head(path)
    if first == b"{" and (_WRAPPED not in head or _OF_PYTORCH in head):
        return False
    is_output = path.parent.name in OUTPUTS and path.name.startswith("trace_view.json")
    if is_output or _DUMP.search(head):
        return True
    time = _TIME.search(head)
    if not time or _WORDS.search(head):
        return time is not None
    parts = pieces(path, _PIECE_BYTES)
    if time["quote"]:  # only then the whole file, which takes too long for those of others
        return any(_WORDS.search(last[-64:] + piece) for last, piece in pairwise(parts))
    return _WORDS.search(b"".join(deque(parts, maxlen=_END_PIECES))) is not None


def _head(path: Path) -> bytes:
    return b"".join(islice(pieces(path, _PIECE_BYTES), _END_PIECES))
