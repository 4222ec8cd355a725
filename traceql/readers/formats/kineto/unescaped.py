"""Names and arguments that a profiler wrote without escapes, so that its file is not JSON.

Versions of PyTorch write the names of frames as they are (pytorch#146900): files that code
generators invent may contain quotes, and paths of Windows contain backslashes. A file is read like
this only after the parser has rejected it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import msgspec

from traceql.errors import TraceCorrupt
from traceql.readers.formats.kineto.documents import IS_FOLLOWED, one_document
from traceql.readers.formats.kineto.kineto_json import (
    OPENING,
    DamagedJson,
    KinetoJson,
    Repairs,
    event_in,
    parsed,
    text_pieces,
)

Read = TypeVar("Read")

_KEY = rb'"(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s)"\s*:'
_BETWEEN_EVENTS = re.compile(rb"(?<=\})(\s*,\s*)(?=\{\s*%b)" % _KEY)
_FIRST_EVENT = re.compile(rb"\s*\[\s*(?=\{)")  # of the array form
_END_OF_EVENTS = re.compile(rb"\}(?=\s*,?\s*\])")
_LAST_COMMA = re.compile(rb"\s*,(?=\s*\])")  # which JSON does not allow, but viewers do
# A name ends before the next key of its event; an argument before the next key, or a brace.
_NAME = re.compile(rb'("name"\s*:\s*")(.*?)(?="\s*,\s*%b)' % _KEY, re.DOTALL)
# A name that ends in its line, and may contain keys, except those of another event.
_NAME_IN_LINE = re.compile(rb'"name"\s*:\s*"((?:(?!"p(?:h|id)"\s*:).)*)"\s*,\s*"pid"\s*:')
_ARGUMENTS = re.compile(rb'"args"\s*:\s*(?=\{)')
_BEFORE_A_KEY = rb'"\s*,\s*"[^"\\\n]*"\s*:'
_VALUES = [
    re.compile(rb'("[^"\\\n]*"\s*:\s*")(.*?)(?=%b|"\s*\}%b)' % (_BEFORE_A_KEY, end), re.DOTALL)
    for end in (rb"", rb"\s*\}?\s*$")
]
_KEY_INSIDE = re.compile(_KEY)
_ESCAPED = re.compile(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_UNESCAPED = re.compile(rb'["\\]|[\x01-\x1f]')
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_OR_UNESCAPED = re.compile(rb"%b|%b" % (_ESCAPE.pattern, _UNESCAPED.pattern))
_PLACE = re.compile(r" ?\(byte \d+\)")
_NOT_ESCAPED = (
    "line {}: the name of an event has quotes or backslashes that this version of PyTorch did not "
    "escape; record with a newer one, or without stacks (with_stack=False)"
)
_LEAST_BYTES = 1 << 20
_ENDS_TRIED = 50


class Repair:
    """Repairs the text of a file, event by event.

    Args:
        literal: whether backslashes of names are no escapes; see `is_literal`.

    Attributes:
        texts: how many names and arguments were repaired.
        has_last_comma: whether a comma behind the last event was left out.
        line: the line, from 1, of the first event whose name cannot be repaired; 0 for none.
    """

    def __init__(self, *, literal: bool) -> None:
        self.texts = 0
        self.has_last_comma = False
        self.line = 0
        self._literal = literal

    def repaired(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The text of the file as JSON, as far as it can be repaired."""
        line = 1
        for before, event, after in _events(pieces):
            fixed = self.event(event)
            is_truncated = not event.rstrip().endswith(b"}")
            name = None if fixed or is_truncated else _NAME_IN_LINE.search(event)
            if name and not self.line and not _ESCAPED.fullmatch(name[1]):
                self.line = line + (before + event[: name.start()]).count(b"\n")
            yield self._values(before)
            yield event if fixed is None else fixed
            if comma := _LAST_COMMA.match(after):
                self.has_last_comma = True
                after = after[comma.end() :]
            yield self._values(after)
            line += (before + event + after).count(b"\n")

    def event(self, text: bytes) -> bytes | None:
        """An event, repaired if necessary; None if that is impossible."""
        name = _NAME.search(text)
        is_valid = _is_event(text)
        if is_valid and not (self._literal and name and b"\\" in name[2]):
            return text
        attempts = (None,) if is_valid else (None, *_VALUES)
        for values in attempts:
            found = self._attempt(text, name, values)
            if found and _is_event(found[0]):
                self.texts += found[1]
                return found[0]
        return None

    def _attempt(
        self, text: bytes, name: re.Match[bytes] | None, values: re.Pattern[bytes] | None
    ) -> tuple[bytes, int] | None:
        """The text with its name repaired, and its arguments if `values` finds them."""
        repaired, until = 0, 0
        if name:
            if _KEY_INSIDE.search(name[2]):  # something is missing in between
                return None
            until = name.start() + len(name[1])
            new = escaped(name[2], literal=self._literal)
            repaired = new != name[2]
            text = text[:until] + new + text[name.end() :]
            until += len(new)
        arguments = _ARGUMENTS.search(text, until) if values else None
        if values and arguments:
            new, more = _with_values(text[arguments.end() :], values)
            text, repaired = text[: arguments.end()] + new, repaired + more
        return text, repaired

    def _values(self, text: bytes) -> bytes:
        """The text before or after the events, whose values may be paths."""
        fixed, repaired = _with_values(text, _VALUES[0]) if b"\\" in text else (text, 0)
        self.texts += repaired
        return fixed


def is_literal(pieces: Iterable[bytes]) -> bool:
    """Whether any name has a quote or a backslash that is not escaped, so that none is."""
    names = (_NAME.search(event) for _, event, _ in _events(pieces))
    return any(
        not _ESCAPED.fullmatch(_CONTROL.sub(b"", name[2]))
        for name in names
        if name and not _KEY_INSIDE.search(name[2])
    )


def escaped(text: bytes, *, literal: bool) -> bytes:
    """The inside of a JSON string; valid escapes stay unless they are literal."""

    def escape(found: re.Match[bytes]) -> bytes:
        given = found[0]
        if len(given) > 1:
            return given
        return b"\\" + given if given in b'"\\' else b"\\u%04x" % given[0]

    return (_UNESCAPED if literal else _ESCAPE_OR_UNESCAPED).sub(escape, text)


def _with_values(text: bytes, values: re.Pattern[bytes]) -> tuple[bytes, int]:
    """The text with the values repaired that are not JSON, and how many."""
    repaired = 0

    def fixed(found: re.Match[bytes]) -> bytes:
        nonlocal repaired
        if _ESCAPED.fullmatch(found[2]):
            return found[0]
        repaired += 1
        return found[1] + escaped(found[2], literal=True)

    return values.sub(fixed, text), repaired


def _is_event(text: bytes) -> bool:
    try:
        return bool(parsed(text, event_in, Repairs()).ph)
    except (msgspec.DecodeError, RecursionError):
        return False


def _events(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Each event with the text before it, and with that after it if it is the last."""
    before, text, begins, enough = b"", b"", False, _LEAST_BYTES
    for piece in chain(pieces, (None,)):
        text += piece or b""
        if piece is not None and len(text) < enough:
            continue
        if not begins and (begin := _begin(text)):
            before, text, begins = text[:begin], text[begin:], True
        *whole, text = _BETWEEN_EVENTS.split(text) if begins else [text]
        enough = max(_LEAST_BYTES, 2 * len(text))
        for event, between in zip(whole[::2], whole[1::2], strict=True):
            yield before, event, b""
            before = between
    end = _end(text)
    yield before, text[:end], text[end:]


def _begin(text: bytes) -> int:
    """The place of the first event; 0 if it is unknown."""
    found = _FIRST_EVENT.match(text) or OPENING.search(text)
    return found.end() if found else 0


def _end(text: bytes) -> int:
    """The place behind the last event."""
    repair = Repair(literal=True)
    ends = [found.end() for found in islice(_END_OF_EVENTS.finditer(text), _ENDS_TRIED)]
    return next((end for end in ends if repair.event(text[:end]) is not None), len(text))


def read_json(path: Path, read: Callable[[KinetoJson], Read]) -> Read:
    """The result of `read` for a file, which is joined or repaired if it is not one document.

    Args:
        read: reads the events; it is called again for the repaired file.

    Raises:
        TraceCorrupt: the file is not a trace or is damaged; the message does not name it.
    """
    try:
        return read(KinetoJson(path))
    except DamagedJson as error:
        damage = error
    if IS_FOLLOWED in str(damage):
        try:
            return read(KinetoJson(path, one_document(text_pieces(path))))
        except DamagedJson as error:
            if IS_FOLLOWED in str(error):
                raise TraceCorrupt(
                    "the file goes on after the end of the trace; several processes may have "
                    "written into it: record one file for each"
                ) from None
            damage = error
    repair = Repair(literal=is_literal(text_pieces(path)))
    trace = KinetoJson(path, repair.repaired(text_pieces(path)))
    try:
        result = read(trace)
    except DamagedJson as error:
        if repair.line:
            raise TraceCorrupt(_NOT_ESCAPED.format(repair.line)) from None
        # The place of a later error would count the repaired text.
        why = _PLACE.sub("", str(error)) if repair.texts else str(damage)
        raise TraceCorrupt(why) from None
    trace.repairs.texts, trace.repairs.has_last_comma = repair.texts, repair.has_last_comma
    return result
