"""The expected contents of damaged traces, computed independently of traceql."""

import codecs
import json
import re
import zlib
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

_PIECE = 1 << 20
_MOST_BYTES = 64 << 20
_GZIP = 31  # zlib's number for the gzip format


def unpacked(content: bytes) -> bytes | None:
    """The text in a gzip file of one or more members; None if it is not certain.

    Pieces of a mebibyte of nothing but spaces are left out: they mean nothing in JSON.
    """
    parts: list[bytes] = []
    while content := content.lstrip(b"\0"):
        member = zlib.decompressobj(_GZIP)
        try:
            while not member.eof:
                piece = member.decompress(content, _PIECE)
                content = member.unconsumed_tail
                if not piece and not content and not member.eof:
                    return None
                if piece.strip(b" ") or len(piece) < _PIECE:
                    parts.append(piece)
        except zlib.error:
            return None
        content = member.unused_data
        if sum(map(len, parts)) > _MOST_BYTES:
            return None
    return b"".join(parts)


# pid, tid (None if they are no 64-bit integers), name, start and duration in ns.
Complete = tuple[int | None, int | None, str, int, int]
Described = tuple[int, str]  # start, and the arguments in one form

_INSTANTS = frozenset("iIRn")
_BORDERS = frozenset("BEbeSF")
_TWICE = "\0twice"  # marks an object that has a key twice
_SPELLED = "drills.spelled"
_BARE = re.compile(r"(?<=[:,\[\s])-?(?:nan|inf)(?=\s*[,}\]])")
_STRING_OR_BARE = re.compile(rf'"(?:[^"\\]|\\.)*"|{_BARE.pattern}', re.DOTALL)
_INT64 = range(-(2**63), 2**63)
_MOST_DIGITS = 4_000


class _Unknown(Exception):
    """A value of which it is not certain what it means."""


@dataclass
class Truth:
    """What a trace holds.

    Attributes:
        certain: complete events of which every field is certain.
        described: their starts and arguments, where these are certain.
        uncertain: the number of other complete events.
        instants: the number of instants.
        borders: the number of begins and ends, of which two make a slice.
    """

    certain: Counter[Complete] = field(default_factory=Counter)
    described: Counter[Described] = field(default_factory=Counter)
    uncertain: int = 0
    instants: int = 0
    borders: int = 0

    @property
    def complete(self) -> int:
        return self.certain.total() + self.uncertain


def truth_of(text: bytes) -> Truth | None:
    """What the text of a trace says; None if it is not certain that it is a trace."""
    try:
        trace = _parsed(text.removeprefix(codecs.BOM_UTF8).decode("utf-8", _SPELLED))
    except (ValueError, RecursionError):
        return None
    events = trace
    if isinstance(trace, dict):
        events = None if trace.get(_TWICE) else trace.get("traceEvents")
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        return None
    found = Truth()
    for event in events:
        phase = event.get("ph")
        if phase == "X":
            try:
                complete = _complete(event)
            except _Unknown:
                found.uncertain += 1
                continue
            found.certain[complete] += 1
            with suppress(_Unknown):
                found.described[complete[3], one_form(event.get("args"))] += 1
        elif phase in _INSTANTS and isinstance(phase, str):
            found.instants += 1
        elif isinstance(phase, str):
            found.borders += phase in _BORDERS
    return found


def _parsed(text: str) -> Any:
    """Bare nan and inf, which some profilers write, become strings like NaN and Infinity."""

    def quoted(found: "re.Match[str]") -> str:
        return found[0] if found[0].startswith('"') else f'"{found[0]}"'

    try:
        return _loads(text)
    except ValueError:
        return _loads(_STRING_OR_BARE.sub(quoted, text))


def _loads(text: str) -> Any:
    return json.loads(
        text,
        parse_float=Decimal,
        parse_int=lambda digits: int(digits) if len(digits) < _MOST_DIGITS else Decimal(digits),
        parse_constant=str,
        object_pairs_hook=_object,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else found | {_TWICE: True}


def _spell_out(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(f"\\\\x{byte:02x}" for byte in wrong), error.end


codecs.register_error(_SPELLED, _spell_out)


def _complete(event: dict[str, Any]) -> Complete:
    name = event.get("name")
    if _TWICE in event or not isinstance(name, str) or _has_half_of_a_pair(name):
        raise _Unknown
    dur = 0 if event.get("dur") is None else _ns(event["dur"])
    return _id(event.get("pid")), _id(event.get("tid")), name, _ns(event.get("ts")), dur


def _id(value: Any) -> int | None:
    if isinstance(value, bool | list | dict | Decimal):
        raise _Unknown
    return value if isinstance(value, int) and value in _INT64 else None


def _ns(value: Any) -> int:
    """Nanoseconds for microseconds, half to even."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise _Unknown
    try:
        exact = Decimal(value)
    except InvalidOperation:
        raise _Unknown from None
    if not exact.is_finite() or exact.adjusted() > 30:
        raise _Unknown
    if exact.adjusted() < -30:
        return 0
    ns = int((exact.scaleb(3)).to_integral_value(ROUND_HALF_EVEN))
    if ns not in _INT64:
        raise _Unknown
    return ns


def _has_half_of_a_pair(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def one_form(args: Any) -> str:
    """Arguments in one form, whatever the order of their keys and the spelling of their numbers."""
    if args is None or args == {}:
        return ""
    if not isinstance(args, dict):
        raise _Unknown
    return repr(_sorted(args))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        if _TWICE in value:
            raise _Unknown
        return sorted((key, _sorted(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return [_sorted(inner) for inner in value]
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        exact = Decimal(value)
        return str(exact.normalize() if abs(exact.adjusted()) < 40 else value)
    if isinstance(value, str) and _has_half_of_a_pair(value):
        raise _Unknown
    return value


def loaded_args(text: str | None) -> str:
    """The form of the arguments in a database."""
    try:
        return one_form(None if text is None else _loads(text))
    except (_Unknown, ValueError):
        return "uncertain"


Slice = tuple[str, int, int]  # name, start, duration in ns
_PACKET_TAG = 0x0A  # field 1 of the message Trace, with a length
_BEGIN, _END = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END
_INSTANT = TrackEvent.TYPE_INSTANT
_LATEST = 2**62  # ns; no seed and no mutator means a later time


@dataclass
class Slices:
    """The slices of a trace.

    Attributes:
        certain: those that begin and end as the format says, if nothing in the trace is uncertain.
        began: the number of packets that begin a slice or are an instant.
        is_certain: every packet is one that this module understands.
    """

    certain: Counter[Slice] = field(default_factory=Counter)
    began: int = 0
    is_certain: bool = True


def slices_of(content: bytes) -> Slices | None:
    """The slices of a trace; None if it does not consist of whole packets."""
    packets = _packets(content)
    if packets is None:
        return None
    found = Slices()
    described = set()
    by_track: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for encoded in packets:
        packet = TracePacket()
        try:
            packet.ParseFromString(encoded)
        except DecodeError:
            found.is_certain = False
            continue
        if packet.HasField("track_descriptor"):
            described.add(packet.track_descriptor.uuid)
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        is_slice = event.type in (_BEGIN, _END, _INSTANT)
        found.began += event.type in (_BEGIN, _INSTANT)
        found.is_certain &= _is_plain(packet, described) and is_slice
        by_track[event.track_uuid].append((packet.timestamp, event.type, event.name))
    for events in by_track.values() if found.is_certain else ():
        _pair(events, found)
    return found


def inflated(content: bytes) -> bytes | None:
    """The packets that packets of a trace hold in compressed form; None if one of them is cut."""
    parts = []
    for encoded in _packets(content) or ():
        try:
            parts.append(zlib.decompress(TracePacket.FromString(encoded).compressed_packets))
        except (DecodeError, zlib.error):
            return None
    return b"".join(parts)


def _is_plain(packet: TracePacket, described: set[int]) -> bool:
    """Whether a packet means what it says without any other one but the descriptor of its track."""
    event = packet.track_event
    return (
        packet.HasField("timestamp")
        and packet.timestamp < _LATEST
        and not packet.HasField("timestamp_clock_id")
        and packet.trusted_packet_sequence_id > 0
        and event.HasField("track_uuid")
        and event.track_uuid in described
        and isinstance(event.name, str)  # bytes if they are not UTF-8
        and not event.name_iid
        and not event.HasField("legacy_event")
        and not event.HasField("timestamp_delta_us")
        and not event.HasField("timestamp_absolute_us")
        and not len(UnknownFieldSet(packet))
        and not len(UnknownFieldSet(event))
    )


def _pair(events: list[tuple[int, int, str]], found: Slices) -> None:
    """Ends close the slice that began last; those without a beginning mean nothing."""
    open_slices: list[tuple[int, str]] = []
    for ts, kind, name in sorted(events, key=lambda event: event[0]):
        if kind == _BEGIN:
            open_slices.append((ts, name))
        elif kind == _INSTANT:
            found.certain[name, ts, 0] += 1
        elif open_slices:
            began, of_begin = open_slices.pop()
            found.certain[of_begin, began, ts - began] += 1


def _packets(content: bytes) -> list[bytes] | None:
    found, at = [], 0
    while at < len(content):
        if content[at] != _PACKET_TAG:
            return None
        size, shift, at = 0, 0, at + 1
        while True:
            if at >= len(content) or shift > 63:
                return None
            size |= (content[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if not content[at - 1] & 0x80:
                break
        if at + size > len(content):
            return None
        found.append(content[at : at + size])
        at += size
    return found
