"""The JSON of a PyTorch profiler (Kineto) or other Chrome trace, parsed in batches of events."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from traceql.errors import NotATrace, TraceCorrupt
from traceql.reader.file_text import first_byte, json_text
from traceql.reader.json_repair import repaired_json, valid_utf8

Raw = msgspec.Raw
Scalar = str | int | float | bool | None
Gathered = TypeVar("Gathered")
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


def read_kineto_json(
    path: Path, gather: Callable[[Iterator[list[Event]]], Gathered]
) -> tuple[Gathered, dict[str, Any]]:
    """What `gather` makes of a file's events, and every top-level key but traceEvents.

    Args:
        path: the file, gzipped or not.
        gather: takes all events in batches, in the file's order. It is called a second time where
            the text turns out to need repair.

    Raises:
        TraceCorrupt: truncated or not a trace; the message says which and what to do, but not the
            file.
    """
    text = valid_utf8(json_text(path))
    try:
        return _gathered(text, gather)
    except msgspec.DecodeError:
        return _gathered_after_repair(text, gather)


def _gathered(
    text: bytes, gather: Callable[[Iterator[list[Event]]], Gathered]
) -> tuple[Gathered, dict[str, Any]]:
    metadata: dict[str, Any] = {}

    def batches() -> Iterator[list[Event]]:
        opening = begin = _opening(text)
        if opening:
            for events, next_begin in _batches(text, opening):
                begin = next_begin
                yield events
        rest = text[:opening] + text[begin:]
        yield _last_events(rest)
        metadata.update(_metadata(rest))

    return gather(batches()), metadata


def _opening(text: bytes) -> int:
    """Where the array of events begins; 0 if that is not plain to see."""
    if _is_array(text):
        return text.index(b"[") + 1
    ends = (found.end() for found in _OPENING.finditer(text))
    return next((end for end in ends if _opens_events(text[:end])), 0)


def _is_array(text: bytes) -> bool:
    """Whether this is the Chrome format's array form: events without metadata."""
    return first_byte(text) == b"["


def _opens_events(head: bytes) -> bool:
    """Whether a trace could begin like this, and go on with its first event."""
    try:
        return bool(json.loads(head + b"]}").get("traceEvents") == [])
    except ValueError:
        return False


def _batches(text: bytes, begin: int) -> Iterator[tuple[list[Event], int]]:
    """All batches but the last, each with the place where the next begins.

    A batch is cut where one object seems to follow another. It is whole if it parses: a cut inside
    an event would leave a brace, a bracket or a quote open.
    """
    view = memoryview(text)
    while True:
        for seam in islice(_SEAM.finditer(text, begin + _BATCH_BYTES), _SEAMS_TRIED):
            try:
                events = _EVENTS.decode(b"".join((b"[", view[begin : seam.start() + 1], b"]")))
            except msgspec.DecodeError:
                continue
            begin = seam.end() - 1
            yield events, begin
            break
        else:
            return


def _last_events(text: bytes) -> list[Event]:
    if _is_array(text):
        return _EVENTS.decode(text)
    events = msgspec.json.decode(text, type=_Trace).trace_events
    if events is None:
        raise NotATrace('JSON without "traceEvents"; is it a profiler trace?')
    return events


def _metadata(text: bytes) -> dict[str, Any]:
    """Every top-level key but traceEvents."""
    if _is_array(text):
        return {}
    outermost: list[tuple[str, Any]] = []  # in the end, since it closes last

    def noted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        outermost[:] = pairs
        return dict(pairs)

    trace = json.loads(text, object_pairs_hook=noted)
    if [key for key, _ in outermost].count("traceEvents") > 1:
        raise TraceCorrupt('"traceEvents" twice; which are the events? Keep one of them')
    return {key: value for key, value in trace.items() if key != "traceEvents"}


def _gathered_after_repair(
    text: bytes, gather: Callable[[Iterator[list[Event]]], Gathered]
) -> tuple[Gathered, dict[str, Any]]:
    try:
        return _gathered(repaired_json(text), gather)
    except msgspec.ValidationError as error:
        raise TraceCorrupt(f"not a profiler trace: {error}") from None
    except msgspec.DecodeError as error:
        raise TraceCorrupt(
            f"truncated or damaged JSON ({error}); copy it again or recapture"
        ) from None
