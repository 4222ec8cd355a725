"""The JSON of a PyTorch profiler (Kineto) or other Chrome trace, parsed in batches of events."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from traceql.errors import NotATrace, TraceCorrupt
from traceql.reader.file_text import pieces
from traceql.reader.json_repair import repaired_json, valid_utf8

Raw = msgspec.Raw
Scalar = str | int | float | bool | None
Parsed = TypeVar("Parsed")
ABSENT = Raw(b"")
_BATCH_BYTES = 1 << 18  # the events of a batch, with all that they hold, stay in the CPU's cache
_OPENING = re.compile(rb'"traceEvents"\s*:\s*\[')
_SEAM = re.compile(rb"\}\s*,\s*\{")
_SEAMS_TRIED = 4


class Event(msgspec.Struct, gc=False):
    """A trace event; numbers and arguments stay as the text that stands in the file."""

    ph: str = ""
    name: Scalar = ""
    cat: Scalar = ""
    pid: Scalar = None
    tid: Scalar = None
    ts: Raw = ABSENT
    dur: Raw = ABSENT
    id: Raw = ABSENT
    bp: Scalar = None
    args: Raw = ABSENT


class _Trace(msgspec.Struct):
    trace_events: list[Event] | None = msgspec.field(name="traceEvents", default=None)


_EVENTS = msgspec.json.Decoder(list[Event])
_TRACE = msgspec.json.Decoder(_Trace)


class KinetoJson:
    """A trace file; iterating over it gives all its events, a batch at a time, in their order.

    Raises:
        TraceCorrupt: truncated or not a trace; the message says which and what to do, but not the
            file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.metadata: dict[str, Any] = {}  # every top-level key but traceEvents, in the end

    def __iter__(self) -> Iterator[list[Event]]:
        """Parses what has been read, up to an event's end, and keeps the rest for the next time.

        Where no event seems to end, it reads as much again before it looks again.
        """
        text, head = bytearray(), b""
        enough = _BATCH_BYTES
        for piece in pieces(self._path, _BATCH_BYTES):
            text += piece
            if len(text) < enough:
                continue
            head = head or _cut_head(text)
            batch = _cut_batch(text) if head else None
            enough = max(_BATCH_BYTES, len(text) if batch else 2 * len(text))
            if batch:
                yield batch
        yield self._end(bytes(head + text))

    def _end(self, text: bytes) -> list[Event]:
        """The last events, with all that stands around the events of the file."""
        _require_json(text)
        try:
            if _is_array(text):
                return _parsed(text, _EVENTS.decode)
            trace, self.metadata = _parsed(text, lambda t: (_TRACE.decode(t), _metadata(t)))
        except msgspec.ValidationError as error:
            raise TraceCorrupt(f"not a profiler trace: {error}") from None
        except msgspec.DecodeError as error:
            raise TraceCorrupt(
                f"truncated or damaged JSON ({error}); copy it again or recapture"
            ) from None
        if trace.trace_events is None:
            raise NotATrace('JSON without "traceEvents"; is it a profiler trace?')
        return trace.trace_events


def _parsed(text: bytes, parse: Callable[[bytes], Parsed]) -> Parsed:
    """What `parse` makes of a text, repaired where that is needed."""
    text = valid_utf8(text)
    try:
        return parse(text)
    except msgspec.DecodeError:
        return parse(repaired_json(text))


def _cut_head(text: bytearray) -> bytes:
    """Takes off what precedes the events; nothing where they do not plainly begin."""
    if _is_array(text):
        end = text.index(b"[") + 1
    else:
        ends = [found.end() for found in _OPENING.finditer(text)]
        end = next((end for end in ends if _opens_events(text[:end])), 0)
    head = bytes(text[:end])
    del text[:end]
    return head


def _cut_batch(text: bytearray) -> list[Event] | None:
    """Takes off and parses most of the events.

    A batch is cut where one object seems to follow another. It is whole if it parses: a cut inside
    an event would leave a brace, a bracket or a quote open.
    """
    seams = _SEAM.finditer(text, len(text) * 3 // 4)
    places = [(seam.start() + 1, seam.end() - 1) for seam in islice(seams, _SEAMS_TRIED)]
    del seams  # which holds on to the text
    for end, begin in places:
        try:
            batch = _parsed(b"[" + text[:end] + b"]", _EVENTS.decode)
        except msgspec.DecodeError:
            continue
        del text[:begin]
        return batch
    return None


def _opens_events(head: bytes | bytearray) -> bool:
    """Whether a trace could begin like this, and go on with its first event."""
    try:
        return bool(json.loads(head + b"]}").get("traceEvents") == [])
    except ValueError:
        return False


def _is_array(text: bytes | bytearray) -> bool:
    """Whether this is the Chrome format's array form: events without metadata."""
    return _first_byte(text) == b"["


def _first_byte(text: bytes | bytearray) -> bytes:
    """The first byte that is no space, or nothing."""
    return bytes(text[:4096]).lstrip()[:1]


def _require_json(text: bytes) -> None:
    first = _first_byte(text)
    if not first:
        raise TraceCorrupt("empty file; was the process killed before it was written?")
    if first not in b"{[":
        raise TraceCorrupt("not a trace (neither JSON nor a native Perfetto trace)")


def _metadata(text: bytes) -> dict[str, Any]:
    """Every top-level key but traceEvents."""
    outermost: list[tuple[str, Any]] = []  # in the end, since it closes last

    def noted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        outermost[:] = pairs
        return dict(pairs)

    trace = json.loads(text, object_pairs_hook=noted)
    if [key for key, _ in outermost].count("traceEvents") > 1:
        raise TraceCorrupt('"traceEvents" twice; which are the events? Keep one of them')
    return {key: value for key, value in trace.items() if key != "traceEvents"}
