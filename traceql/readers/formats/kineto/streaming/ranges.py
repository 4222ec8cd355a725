"""Ranges of one JSON file that processes can parse at the same time, each as a trace of its own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from traceql.readers.packing import MAGIC_BYTES, packing_of

_PIECE_BYTES = 1 << 18
_SEARCHED_BYTES = 1 << 20  # for the next seam between two events
_LEAST_BYTES = 64 << 20  # of a range: with less, starting a process takes longer than it saves
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[\s*\{\s*("[^"\\]*")\s*:')
_BEGIN, _END = b'{"traceEvents":[', b"]}"


@dataclass(frozen=True)
class Range:
    """Bytes of a trace from a seam between two events to another, or to an end of the file."""

    begin: int
    end: int
    is_first: bool
    is_last: bool

    def texts(self, path: Path) -> Iterator[bytes]:
        """A trace with the events of the range, and with what is before or after all events."""
        if not self.is_first:
            yield _BEGIN
        with path.open("rb") as file:
            file.seek(self.begin)
            left = self.end - self.begin
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
                yield piece
        if not self.is_last:
            yield _END


def ranges(path: Path, wanted: int) -> list[Range]:
    """As many ranges of about one size, or fewer; none if the file can only be read as a whole.

    Whether a seam is one is not certain: it may be text, or a list inside an event. Then it splits
    an event in two, and the range before it is no JSON.
    """
    size = path.stat().st_size
    number = min(wanted, size // _LEAST_BYTES)
    with path.open("rb") as file:
        head = file.read(_SEARCHED_BYTES)
        opening = _EVENTS.search(head)
        if number < 2 or packing_of(head[:MAGIC_BYTES]) or not opening:
            return []
        seam = re.compile(rb"\}\s*,\s*(?=\{\s*%b\s*:)" % re.escape(opening[1]))
        seams = []  # the end of an event, and the begin of the next one
        for place in range(1, number):
            near = size * place // number
            file.seek(near)
            if found := seam.search(file.read(_SEARCHED_BYTES)):
                seams.append((near + found.start() + 1, near + found.end()))
    borders = [(0, 0), *dict.fromkeys(seams), (size, size)]
    last = len(borders) - 2
    return [
        Range(begin, end, is_first=place == 0, is_last=place == last)
        for place, ((_, begin), (end, _)) in enumerate(pairwise(borders))
        if last
    ]
