"""Slices of a JSON trace that are written as two events: their begin and their end."""

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import msgspec

from traceql.readers.formats.kineto.kineto_json import ABSENT, Event, Raw
from traceql.readers.formats.kineto.times import Int64s, nanoseconds
from traceql.readers.timeline import COMPLETE

_BEGINS = frozenset("BbS")
_ON_A_THREAD = frozenset("BE")
BORDERS = frozenset("BEbeSF")  # on a thread; of an asynchronous operation; the same in old traces
_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ID2 = re.compile(rb'\{\s*"(?:local|global)"\s*:\s*([^{}]*?)\s*\}')
_NO_TIME = (b"", b"null")


def own_copy(event: Event) -> Event:
    """An event whose texts do not keep the batch of the file in memory."""
    for name in ("ts", "id", "id2", "args"):
        text: Raw = getattr(event, name)
        setattr(event, name, text.copy() if text else ABSENT)
    return event


def complete_events(borders: Sequence[Event]) -> list[Event]:
    """A complete event for each pair of a begin and an end, in the order of the begins.

    An end belongs to the innermost open begin of its place; if it has a name, to the innermost one
    of this name. Events of a place count in the order of time, and in that of the file if their
    times are equal. The arguments of both are joined.
    """
    timed = [event for event in borders if bytes(event.ts) not in _NO_TIME]
    ts = nanoseconds([event.ts for event in timed])
    opened: defaultdict[Hashable, _Open] = defaultdict(_Open)
    end_of: dict[int, int] = {}
    for at in ts.argsort(kind="stable").tolist():
        event = timed[at]
        open_ = opened[_place(event)]
        if event.ph in _BEGINS:
            open_.add(at, event.name)
        elif (begin := open_.taken(event.name)) is not None:
            end_of[begin] = at
    return [_complete(timed, ts, begin, end_of[begin]) for begin in sorted(end_of)]


class _Open:
    """The begins of a place that have no end yet."""

    def __init__(self) -> None:
        self._all: list[int] = []
        self._by_name: defaultdict[Any, list[int]] = defaultdict(list)
        self._name: dict[int, Any] = {}

    def add(self, begin: int, name: Any) -> None:
        self._all.append(begin)
        self._by_name[name].append(begin)
        self._name[begin] = name

    def taken(self, name: Any) -> int | None:
        """Removes the innermost begin, of this name unless it is empty; None if there is none."""
        begins = self._by_name[name] if name not in (None, "") else self._all
        while begins:  # a begin is in two lists, and is removed from the other one later
            begin = begins.pop()
            if self._name.pop(begin, self) is not self:
                return begin
        return None


def _place(event: Event) -> Hashable:
    """Where borders can belong together: process and thread, or process and operation."""
    return event.pid, event.tid if event.ph in _ON_A_THREAD else _operation(event)


def _operation(event: Event) -> str:
    """The asynchronous operation of an event: its category, scope and id."""
    return " ".join(str(part) for part in (event.cat, event.scope, id_text(event)) if part)


def id_text(event: Event) -> str:
    """The id of an event without quotes; empty if it has none."""
    found = _ID2.fullmatch(event.id2) if event.id2 else None
    return bytes(found[1] if found else event.id).decode().strip('"')


def _complete(events: Sequence[Event], ts: Int64s, begin: int, end: int) -> Event:
    event = events[begin]
    us, ns = divmod(int(ts[end]) - int(ts[begin]), 1000)
    return Event(
        ph=COMPLETE, name=event.name, cat=event.cat, pid=event.pid,
        tid=event.tid if event.ph in _ON_A_THREAD else _operation(event),
        ts=event.ts, dur=Raw(b"%d.%03d" % (us, ns)), args=_joined(event.args, events[end].args),
    )  # fmt: skip


def _joined(begin: Raw, end: Raw) -> Raw:
    """The arguments of both events; of a key that both have, the value at the end counts."""
    if not begin or not end:
        return begin or end
    try:
        both = _ARGUMENTS.decode(begin) | _ARGUMENTS.decode(end)
    except msgspec.DecodeError:  # not an object
        return begin
    return Raw(msgspec.json.encode(both))
