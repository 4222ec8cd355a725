"""What a JSON trace says, read with Python's json and exact decimals."""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

# pid, tid (None if they are no 64-bit integers), name, start and duration in ns.
Complete = tuple[int | None, int | None, str, int, int]
Described = tuple[int, str]  # start, and the arguments in one form

_INSTANTS = frozenset("iIRn")
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
    """

    certain: Counter[Complete] = field(default_factory=Counter)
    described: Counter[Described] = field(default_factory=Counter)
    uncertain: int = 0
    instants: int = 0

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
    return _truth(events)


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


def _truth(events: Iterable[dict[str, Any]]) -> Truth:
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
    return found


def _complete(event: dict[str, Any]) -> Complete:
    name = event.get("name")
    if _TWICE in event or not isinstance(name, str) or _has_half_of_a_pair(name):
        raise _Unknown
    dur = event.get("dur")
    return (
        _id(event.get("pid")),
        _id(event.get("tid")),
        name,
        _ns(event.get("ts")),
        0 if dur is None else _ns(dur),
    )


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
    text = repr(_sorted(args))
    if _has_half_of_a_pair(text):
        raise _Unknown
    return text


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        if _TWICE in value:
            raise _Unknown
        return sorted((key, _sorted(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return [_sorted(inner) for inner in value]
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return (
            str(Decimal(value).normalize()) if abs(Decimal(value).adjusted()) < 40 else str(value)
        )
    if isinstance(value, str) and _has_half_of_a_pair(value):
        raise _Unknown
    return value


def loaded_args(text: str | None) -> str:
    """The form of the arguments in a database."""
    try:
        return one_form(None if text is None else _loads(text))
    except (_Unknown, ValueError):
        return "uncertain"
