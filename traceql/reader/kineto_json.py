"""The JSON of a PyTorch profiler (Kineto) or other Chrome trace, parsed in one pass."""

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from isal import isal_zlib

from traceql.errors import NotATrace, TraceCorrupt
from traceql.reader.json_text import repaired_json, valid_utf8

Raw = msgspec.Raw
Scalar = str | int | float | bool | None
ABSENT = Raw(b"")
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31  # as zlib numbers formats


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


@dataclass(frozen=True)
class KinetoTrace:
    events: list[Event]
    metadata: dict[str, Any]  # every top-level key but traceEvents


def of_phases(by_phase: Mapping[str, Sequence[Event]], phases: str) -> list[Event]:
    """The events of some phases, a letter each, one phase after the other."""
    return [event for phase in phases for event in by_phase.get(phase, [])]


def read_kineto_json(path: Path) -> KinetoTrace:
    """Parses a file, gzipped or not.

    Raises:
        TraceCorrupt: truncated or not a trace; the message says which and what to do.
    """
    text = _decompressed(path).removeprefix(codecs.BOM_UTF8)
    _require_json(path, text)
    text = valid_utf8(text)
    try:
        return _parsed(path, text)
    except msgspec.DecodeError:
        return _parsed_after_repair(path, text)


def _decompressed(path: Path) -> bytes:
    content = path.read_bytes()
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return b"".join(_members(content))
    except (EOFError, isal_zlib.IsalError) as error:
        raise TraceCorrupt(
            f"{path}: damaged or truncated gzip ({error}); copy it again or recapture"
        ) from None


def _members(content: bytes) -> Iterator[bytes]:
    """What each gzip member of a file holds; zeros may follow the last."""
    while content.rstrip(b"\0"):
        member = isal_zlib.decompressobj(wbits=_GZIP)
        yield member.decompress(content)
        if not member.eof:
            raise EOFError("it ends before its end-of-stream marker")
        content = member.unused_data


def _require_json(path: Path, text: bytes) -> None:
    first = _first_byte(text)
    if not first:
        raise TraceCorrupt(f"{path}: empty file; was the process killed before it was written?")
    if first not in b"{[":
        raise TraceCorrupt(f"{path}: not a trace (neither JSON nor a native Perfetto trace)")


def _first_byte(text: bytes) -> bytes:
    return text[:4096].lstrip()[:1]


def _parsed(path: Path, text: bytes) -> KinetoTrace:
    if _first_byte(text) == b"[":  # the Chrome format's array form: events without metadata
        return KinetoTrace(msgspec.json.decode(text, type=list[Event]), {})
    events = msgspec.json.decode(text, type=_Trace).trace_events
    if events is None:
        raise NotATrace(f'{path}: JSON without "traceEvents"; is it a profiler trace?')
    return KinetoTrace(events, _metadata(text, events))


def _metadata(text: bytes, events: list[Event]) -> dict[str, Any]:
    """Every top-level key but traceEvents, without parsing the events again.

    The array of events ends at the first bracket after the last event's time from which the text
    is whole: one inside that event would leave a brace too many.
    """
    if not events or not events[-1].ts:
        return _without_events(json.loads(text))
    head = text[: text.index(b"[", text.index(b'"traceEvents"'))]
    tail = text[_address(events[-1].ts) - _address(text) :]
    while (end := tail.find(b"]")) >= 0:
        tail = tail[end:]
        try:
            trace = json.loads(head + b"[" + tail)
        except ValueError:
            tail = tail[1:]
            continue
        if trace.get("traceEvents") == []:
            return _without_events(trace)
        break  # the name stood for something else before it stood for the events
    return _without_events(json.loads(text))


def _address(text: bytes | Raw) -> int:
    """Where the text lies in memory; that of an event is a part of the file's."""
    return int(np.frombuffer(text, np.uint8).ctypes.data)


def _without_events(trace: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in trace.items() if key != "traceEvents"}


def _parsed_after_repair(path: Path, text: bytes) -> KinetoTrace:
    try:
        return _parsed(path, repaired_json(text))
    except msgspec.ValidationError as error:
        raise TraceCorrupt(f"{path}: not a profiler trace: {error}") from None
    except msgspec.DecodeError as error:
        raise TraceCorrupt(
            f"{path}: truncated or damaged JSON ({error}); copy it again or recapture"
        ) from None
