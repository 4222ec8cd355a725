"""Parses the JSON of a PyTorch profiler (Kineto) or other Chrome trace, in batches."""

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.contract import unpacked_bytes
from traceql.readers.formats.kineto.other_files import (
    kind_of_bytes,
    kind_of_list,
    kind_of_nameless,
    kind_of_object,
)
from traceql.readers.formats.kineto.scanner import Scanned, Scanner, new_scanner
from traceql.readers.unpacked import pieces

_NON_FINITE = re.compile(
    rb"(?<=[:,\[\s])(?:-?NaN|-?Infinity|-?nan|-?inf)(?=\s*[,}\]])",
)
_ESCAPED = "traceql.escaped"
_QUOTE_OR_ESCAPE = re.compile(rb'\\.|"', re.DOTALL)
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: kept
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half a pair: group 1
    rb"|.)",
    re.DOTALL,
)


def repaired_json(text: bytes) -> bytes:
    """`text` with non-finite numbers in quotes and lone surrogates escaped."""
    if b"\\u" in text:
        text = _ESCAPES.sub(lambda found: b"\\\\" + found[1] if found[1] else found[0], text)
    parts: list[bytes] = []
    end, in_string = 0, False
    for found in _NON_FINITE.finditer(text):
        between = text[end : found.start()]
        # An odd number of quotes opens or closes a string.
        tokens = _QUOTE_OR_ESCAPE.findall(between) if b"\\" in between else between
        in_string ^= tokens.count(b'"') % 2 == 1
        parts += [between, found[0] if in_string else b'"%s"' % found[0]]
        end = found.end()
    return b"".join([*parts, text[end:]])


def valid_utf8(text: bytes) -> bytes:
    """`text` with all bytes that are not UTF-8 escaped."""
    if text.isascii():
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode(errors=_ESCAPED).encode()
    return text


def _escape(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(f"\\\\x{byte:02x}" for byte in wrong), error.end


_MORE_BYTES = len(rb"\\x00") - 1  # than the byte that is escaped


codecs.register_error(_ESCAPED, _escape)


Raw = msgspec.Raw
Scalar = str | int | float | bool | None
Parsed = TypeVar("Parsed")
Cut = TypeVar("Cut", bound=Sized)
ABSENT = Raw(b"")
_BATCH_BYTES = 1 << 20  # small enough that the events of a batch stay in the CPU's cache
_SCANNED_BYTES = 64 << 20  # in a smaller file, the scanner saves less than a tenth of a load
_KEY = rb'"%b"\s*:' % b"".join(  # "traceEvents", whose letters may be escaped
    rb"(?:%c|\\u00(?i:%02x))" % (letter, letter) for letter in b"traceEvents"
)
OPENING = re.compile(_KEY + rb"\s*\[")
_EVENTS_KEY = re.compile(_KEY)
_FIRST_KEY = re.compile(rb'\{\s*("[^"\\]*"\s*:)?')
_FIRST_BYTE = re.compile(rb"\s*(\S?)")
_CUTS_TRIED = 8
_CUT_EVENT = re.compile(rb"\s*,\s*\{")  # the start of an event behind a whole one
_BYTE = re.compile(r"\(byte (\d+)\)")
_EVENT = re.compile(r"(\$(?:\.traceEvents)?\[)(\d+)")


class Event(msgspec.Struct, gc=False):
    """A trace event; times, ids and arguments keep their text in the file."""

    ph: str = ""
    name: Scalar = ""
    cat: Scalar = ""
    pid: Scalar = None
    tid: Scalar = None
    ts: Raw = ABSENT
    dur: Raw = ABSENT
    id: Raw = ABSENT
    id2: Raw = ABSENT
    scope: Scalar = None
    bp: Scalar = None
    args: Raw = ABSENT


Batch = list[Event] | Scanned


class _Trace(msgspec.Struct):
    trace_events: list[Event] | None = msgspec.field(name="traceEvents", default=None)


_EVENT_ALONE = msgspec.json.Decoder(Event)
_EVENTS = msgspec.json.Decoder(list[Event])
_TRACE = msgspec.json.Decoder(_Trace)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


class DamagedJson(TraceCorrupt):
    """A file is not valid JSON; perhaps a repair of its names helps."""


@dataclass
class Repairs:
    """What was not right in a file that is loaded nevertheless.

    Attributes:
        texts: names and arguments without escapes.
        wrong_bytes: bytes that are not UTF-8.
        has_no_end: whether the list of events is not closed.
        has_cut_event: whether it ends within an event, which is lost.
        has_last_comma: whether a comma is behind its last event.
    """

    texts: int = 0
    wrong_bytes: int = 0
    has_no_end: bool = False
    has_cut_event: bool = False
    has_last_comma: bool = False


class KinetoJson:
    """A trace file; iterating over it yields batches of events in the order of the file.

    `scanned()` yields columns instead of events where possible, in about half the time.

    Raises:
        TraceCorrupt: the file is truncated or not a trace; the message does not name the file.
    """

    def __init__(self, path: Path, texts: Iterable[bytes] | None = None) -> None:
        """Takes a file, or the pieces of text to read instead."""
        self._path = path
        self._texts = text_pieces(path) if texts is None else texts
        self.metadata: dict[str, Any] = {}  # top-level keys without traceEvents, set at the end
        self.repairs = Repairs()  # complete at the end

    def __iter__(self) -> Iterator[list[Event]]:
        return self._batches(partial(_cut_batch, self.repairs))

    def scanned(self) -> Iterator[Batch]:
        """All events in batches, most of them scanned by compiled code if the file is large."""
        found = new_scanner() if unpacked_bytes(self._path) >= _SCANNED_BYTES else None
        return self._batches(partial(_scan_batch, found, self.repairs)) if found else iter(self)

    def _batches(self, cut: Callable[[bytearray], Cut | None]) -> Iterator[Cut | list[Event]]:
        """Parses the text up to the end of an event, and keeps the rest for the next batch.

        If no end of an event is found, the text is doubled before the next attempt.
        """
        text, head, enough = bytearray(), b"", _BATCH_BYTES
        taken_bytes = taken_events = 0
        for piece in self._texts:
            text += piece
            while len(text) >= enough:
                head = head or _cut_head(text)
                size = len(text)
                batch = cut(text) if head else None
                enough = _BATCH_BYTES if batch else max(_BATCH_BYTES, 2 * size)
                if batch:
                    taken_bytes += size - len(text)
                    taken_events += len(batch)
                    yield batch
        try:
            yield self._end(bytes(head + text))
        except msgspec.DecodeError as error:
            reason = _in_file(error, len(head), taken_bytes, taken_events)
            if isinstance(error, msgspec.ValidationError):
                raise TraceCorrupt(f"not a profiler trace: {reason}") from None
            raise DamagedJson(
                f"truncated or damaged JSON ({reason}); copy it again or record it again"
            ) from None
        except RecursionError:
            raise TraceCorrupt("its JSON nests too deeply to be read") from None

    def _end(self, text: bytes) -> list[Event]:
        """Parses the last events, and the metadata before and after the events."""
        first = _first_byte(text)
        if not first:
            raise TraceCorrupt("empty file; was the process killed before it was written?")
        if first not in b"{[":
            if kind := kind_of_bytes(text, self._path.name):
                raise NotATrace(kind)
            raise TraceCorrupt(
                "not a trace (neither JSON, nor a native Perfetto trace, nor a CSV file of a "
                "profiler)"
            )
        if first == b"[":
            return self._end_of_array(text)
        trace, self.metadata = parsed(
            text, lambda t: (_TRACE.decode(t), _metadata(t)), self.repairs
        )
        if trace.trace_events is None:
            kind = kind_of_object(self.metadata)
            raise NotATrace(kind or 'JSON without "traceEvents"; is it a profiler trace?')
        return trace.trace_events

    def _end_of_array(self, text: bytes) -> list[Event]:
        """Parses the last events of the array form, which need not be closed."""
        try:
            found = parsed(text, _EVENTS.decode, self.repairs)
            if not any(event.ph for event in found):
                kind = kind_of_list(text)
                if not kind and not any(event.name for event in found):
                    kind = kind_of_nameless(text)
                if kind:
                    raise NotATrace(kind)
            return found
        except msgspec.ValidationError:
            if kind := kind_of_list(text):
                raise NotATrace(kind) from None
            raise
        except msgspec.DecodeError as error:
            found = self._unclosed(text, error)
        self.repairs.has_no_end = True
        return found

    def _unclosed(self, text: bytes, error: msgspec.DecodeError) -> list[Event]:
        """Parses events whose list is not closed, but for one that is cut off."""
        whole = text.rstrip().removesuffix(b",").rstrip()
        if whole.endswith((b"[", b"]")):
            raise error
        end = len(whole)
        for _ in range(_CUTS_TRIED):
            end = whole.rfind(b"}", 0, end)
            if end < 0:
                break
            rest = whole[end + 1 :]
            if rest and not _CUT_EVENT.match(rest):
                continue
            try:
                found = parsed(whole[: end + 1] + b"]", _EVENTS.decode, self.repairs)
            except msgspec.DecodeError:
                continue
            self.repairs.has_cut_event = bool(rest)
            return found
        raise error


def text_pieces(path: Path) -> Iterator[bytes]:
    """The text of a file in small pieces, without a byte order mark."""
    found = pieces(path, _BATCH_BYTES)
    start = b""
    while len(start) < len(codecs.BOM_UTF8) and (piece := next(found, None)) is not None:
        start += piece
    yield start.removeprefix(codecs.BOM_UTF8)
    yield from found


def _in_file(
    error: msgspec.DecodeError, head_bytes: int, taken_bytes: int, taken_events: int
) -> str:
    """The error in the last part of the text, with its position in the file."""

    def byte(found: re.Match[str]) -> str:
        at = int(found[1])
        return f"(byte {at + (taken_bytes if at >= head_bytes else 0)})"

    reason = _BYTE.sub(byte, str(error))
    return _EVENT.sub(lambda found: f"{found[1]}{int(found[2]) + taken_events}", reason)


def parsed(text: bytes, parse: Callable[[bytes], Parsed], repairs: Repairs) -> Parsed:
    """The result of `parse` for a text, which is repaired if necessary."""
    valid = valid_utf8(text)
    try:
        result = parse(valid)
    except msgspec.DecodeError:
        result = parse(repaired_json(valid))
    repairs.wrong_bytes += (len(valid) - len(text)) // _MORE_BYTES
    return result


def _cut_head(text: bytearray) -> bytes:
    """Cuts off and returns the text before the events; empty if their start is uncertain."""
    if _first_byte(text) == b"[":  # the array form of the Chrome format, without metadata
        end = text.index(b"[") + 1
    else:
        openings = islice(OPENING.finditer(text), _CUTS_TRIED)
        ends = [found.end() for found in openings]
        del openings  # its matches lock the text
        end = next((end for end in ends if _opens_events(text[:end])), 0)
    head = bytes(text[:end])
    del text[:end]
    return head


def _cut_batch(repairs: Repairs, text: bytearray) -> list[Event] | None:
    """Cuts off and parses about three quarters of the text; None if no cut succeeds.

    It tries to cut before each object with the same first key as the first event. The cut is right
    if the batch parses: a cut inside an event leaves a brace, bracket or quote open.
    """
    begins = _FIRST_KEY.search(text)
    if begins is None:
        return None
    key = re.escape(begins[1] or b"")
    del begins  # it locks the text
    shift = len(text) * 3 // 4
    seams = re.finditer(rb"\}\s*,\s*(?=\{\s*%b)" % key, text[shift:])
    for seam in islice(seams, _CUTS_TRIED):
        try:
            events = b"[" + text[: shift + seam.start() + 1] + b"]"
            batch = parsed(events, _EVENTS.decode, repairs)
        except (msgspec.DecodeError, RecursionError):
            continue
        del text[: shift + seam.end()]
        return batch
    return None


def _scan_batch(scanner: Scanner, repairs: Repairs, text: bytearray) -> Batch | None:
    """Cuts off and scans events; those that the scanner does not support are parsed."""
    if scanner.has_ended:
        return None
    found = scanner.scan(text)
    del text[: found.consumed]
    return found if len(found) else _cut_batch(repairs, text)


def event_in(text: bytes) -> Event:
    return _EVENT_ALONE.decode(text)


def _opens_events(head: bytearray) -> bool:
    """Whether `head` is the beginning of a trace up to its first event."""
    try:
        return bool(json.loads(head + b"]}").get("traceEvents") == [])
    except (ValueError, RecursionError):
        return False


def _first_byte(text: bytes | bytearray) -> bytes:
    """The first byte that is not white space, if any."""
    found = _FIRST_BYTE.match(text)
    return bytes(found[1]) if found else b""


def _metadata(text: bytes) -> dict[str, Any]:
    """All top-level keys except traceEvents."""
    if len(_EVENTS_KEY.findall(text)) > 1:  # a parser would keep the last list of events
        pairs = json.loads(text, object_pairs_hook=list, parse_int=str)
        if [key for key, _ in pairs].count("traceEvents") > 1:
            raise TraceCorrupt('"traceEvents" appears twice; remove one of the two lists of events')
    given = _OBJECT.decode(text)
    try:
        return {key: json.loads(bytes(raw)) for key, raw in given.items() if key != "traceEvents"}
    except ValueError:  # Python limits the digits, because parsing them takes quadratic time
        digits = sys.get_int_max_str_digits()
        raise TraceCorrupt(f"its metadata has a number of more than {digits} digits") from None
