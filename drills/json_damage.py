"""Damages JSON: events, structure, text and encoding."""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

Event = dict[str, Any]


ODD_TEXTS = (
    "", " ", "\x00", "a\x00b", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "\r\n", "\u2028",
    "</script><script>alert(1)</script>", "<b>&amp;", "[red]markup[/red]", "[/]", "[link=x]y", "\\",
    "'; DROP TABLE slice; --", "$1 {} %s %(x)s", "../../etc/passwd", "%2e%2e%2f", "\u202eright",
    "e\u0301", "\U0001f600", "a" * 5_000, "NaN, [Infinity]", '": {"ph": "X"', "{", "traceEvents",
    "\ufeff", "\ufffe\uffff", "=1+1", "nccl:all_reduce", "ProfilerStep#5", "execute_context_1(5)",
)  # fmt: skip


def negative(event: Event, random: Random) -> Event:
    key = random.choice(("ts", "dur"))
    return event | {key: -event[key]}


def overlapping(event: Event, random: Random) -> Event:
    """It may begin inside another event of its thread and end after it."""
    longer = random.choice((10, 1_000, 100_000))
    return event | {"dur": round(event["dur"] + random.random() * longer, 3)}


def other_links(event: Event, random: Random) -> Event:
    """A correlation and an external id that lead to any other event, or to none."""
    links = {key: random.choice(_LINKS) for key in ("correlation", "External id")}
    return event | {"args": event.get("args", {}) | links}


def endless_flows(events: list[Event], random: Random) -> list[Event]:
    """Starts of arrows without ends, ends without starts, and many of one number."""
    timed = [event for event in events if "ts" in event] or [{"ts": 0, "pid": 1, "tid": 1}]
    return events + [
        {key: event.get(key) for key in ("ts", "pid", "tid")}
        | {"ph": random.choice("stf"), "id": random.choice((1, 2, n)), "cat": "ac2g", "name": "a"}
        for n, event in enumerate(random.choices(timed, k=200))
    ]


def equal_times(events: list[Event], random: Random) -> list[Event]:
    times = [event["ts"] for event in events if "ts" in event][:3] or [0]
    return _some("X", lambda event, random: event | {"ts": random.choice(times)})(events, random)


def dropped(events: list[Event], random: Random) -> list[Event]:
    share = random.random()
    return [event for event in events if random.random() > share]


_LINKS = (0, 1, -1, 2**63, 2**64, 10**25)
_IDS = (0, -5, 2**31, 2**63 - 1, "Spans", "7", None, 2**64)
_CATEGORIES = (
    "kernel", "cpu_op", "gpu_memcpy", "user_annotation", "cuda_runtime", "ac2g", "new", "",
)  # fmt: skip
# Phases that are not loaded, which the ledger has to say.
_OTHER_PHASES = ("B", "E", "C", "N", "O", "D", "P", "b", "e", "v", "", "XX", "\u00e9")


def _some(
    which: str, change: Callable[[Event, Random], Event]
) -> Callable[[list[Event], Random], list[Event]]:
    """Changes some of the events: complete ones (X), those with a time, or any."""
    applies: Callable[[Event], bool] = {
        "X": lambda event: event.get("ph") == "X",
        "timed": lambda event: "ts" in event,
        "any": lambda _: True,
    }[which]

    def damage(events: list[Event], random: Random) -> list[Event]:
        share = random.choice((0.02, 0.3, 1))
        return [
            change(event, random) if applies(event) and random.random() < share else event
            for event in events
        ]

    return damage


def _odd(which: str, values: Sequence[Any], *keys: str) -> Callable[..., list[Event]]:
    """One of the keys gets one of the values in some events."""
    return _some(which, lambda event, random: event | {random.choice(keys): random.choice(values)})


EVENT_MUTATORS: Mapping[str, Callable[[list[Event], Random], list[Event]]] = {
    "shuffled": lambda events, random: random.sample(events, len(events)),
    "dropped": dropped,
    "doubled": lambda events, random: [
        event for event in events for _ in range(random.choice((1, 1, 1, 2, 3)))
    ],
    "renamed": _odd("any", ODD_TEXTS, "name"),
    "overlapping": _some("X", overlapping),
    "equal_times": equal_times,
    "empty": _odd("X", (0,), "dur"),
    "negative": _some("X", negative),
    "far_apart": _odd("X", (0, 1e9, 1.5e15, 4e15), "ts"),  # 64-bit nanoseconds hold 292 years
    "many_threads": _odd("any", range(5_000), "tid"),
    "other_ids": _odd("any", _IDS, "pid", "tid"),
    "one_thread": lambda events, _: [event | {"pid": 1, "tid": 1} for event in events],
    "endless_flows": endless_flows,
    "instants": _odd("timed", "iIRn", "ph"),
    "other_phases": _odd("timed", _OTHER_PHASES, "ph"),
    "other_categories": _odd("any", _CATEGORIES, "cat"),
    "other_links": _some("any", other_links),
}


_STRING = re.compile(r'(?<=": )"[^"\\]*"')
_NUMBER = re.compile(r"(?<=[ \[])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=[,\]}])")
_KEY = re.compile(r'"(\w+)":')
_ODD_STRINGS = (
    r'"\ud800"', r'"\udc00\ud800"', r'"\ud83d\ude00"', r'"\u0000"', r'"\/\b\f\n\r\t"', '"\t"', '"\n"',
    r'"\x41"', r'"\u12"', r'"\uD800x"', r'"\\ud800"', "'single'", '"\x7f\x80"',
)  # fmt: skip
_ODD_NUMBERS = (
    "NaN", "-NaN", "Infinity", "-Infinity", "nan", "inf", "1e999990", "1e-999990", "-1e400", "1e309",
    "9" * 400, "0." + "0" * 400 + "1", "-0", "-0.0", "00", "+1", ".5", "5.", "1e5", "1E+5", "0x10",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "9223372036854775.807",
    "18446744073709551616", "0.0005", "0.0015", "2.5e-4", "1e15", "-1", "1" + "0" * 17, "1_000",
    "true", "null", '"12.5"', '"soon"', "[]", "{}", '""', "1.0000000000000000000001",
)  # fmt: skip


def odd_string_unescaped(text: str, random: Random) -> str:
    """Control characters and markup as they are, which JSON forbids for the former."""
    odd = json.dumps(random.choice(ODD_TEXTS), ensure_ascii=False)
    return _put(_STRING, odd.encode("utf-8").decode("unicode_escape", "ignore"), text, random)


def odd_time(text: str, random: Random) -> str:
    time = re.compile(rf'(?<="{random.choice(("ts", "dur"))}": )[^,}}]+')
    return _put(time, random.choice(_ODD_NUMBERS), text, random)


def duplicate_key(text: str, random: Random) -> str:
    """The same key twice in one object, with another value first."""
    found = _any(_KEY, text, random)
    if found is None:
        return text
    value = random.choice(("1", "null", '"x"', "[]", "0.5", '{"a": 1}'))
    return f"{text[: found.start()]}{found[0]} {value}, {text[found.start() :]}"


def escaped_key(text: str, random: Random) -> str:
    """Keys in which a letter is written as an escape, which means the same."""
    found = _any(_KEY, text, random)
    if found is None:
        return text
    key = found[1]
    spelled = f'"\\u{ord(key[0]):04x}{key[1:]}":'
    if random.random() < 0.3:
        return text.replace(found[0], spelled)
    return text[: found.start()] + spelled + text[found.end() :]


def _put(place: "re.Pattern[str]", new: str, text: str, random: Random) -> str:
    for _ in range(random.choice((1, 1, 1, 8))):
        found = _any(place, text, random)
        if found is not None:
            text = text[: found.start()] + new + text[found.end() :]
    return text


def _any(place: "re.Pattern[str]", text: str, random: Random) -> "re.Match[str] | None":
    """The first match behind a random position, or else the first one."""
    return place.search(text, random.randrange(len(text) + 1)) or place.search(text)


TEXT_MUTATORS: Mapping[str, Callable[[str, Random], str]] = {
    "odd_string": lambda text, random: _put(
        _STRING, json.dumps(random.choice(ODD_TEXTS)), text, random
    ),
    "odd_string_unescaped": odd_string_unescaped,
    "odd_escape": lambda text, random: _put(_STRING, random.choice(_ODD_STRINGS), text, random),
    "odd_number": lambda text, random: _put(_NUMBER, random.choice(_ODD_NUMBERS), text, random),
    "odd_time": odd_time,
    "duplicate_key": duplicate_key,
    "escaped_key": escaped_key,
    "white_space": lambda text, random: text.replace(
        ", ", "," + random.choice(("\n", "\r\n", "\t", " " * 300))
    ),
}


def _encoded(name: str) -> Callable[[bytes, Random], bytes]:
    return lambda text, _random: text.decode(errors="replace").encode(name, "replace")


def _stray_bytes(text: bytes, random: Random) -> bytes:
    """Bytes that are not UTF-8 inside of names."""
    name = re.compile(rb'(?<="name": ")')
    found = name.search(text, random.randrange(len(text) + 1))
    at = found.end() if found else 0
    return text[:at] + random.choice((b"\xff", b"\xc3", b"\xe9\xe8", b"\xed\xa0\x80")) + text[at:]


ENCODINGS: Mapping[str, Callable[[bytes, Random], bytes]] = {
    "byte_order_mark": lambda text, random: codecs.BOM_UTF8 * random.choice((1, 1, 2)) + text,
    "utf-16": _encoded("utf-16"),
    "latin-1": _encoded("latin-1"),
    "utf-32": _encoded("utf-32"),
    "stray_bytes": _stray_bytes,
}


Json = Any
_LEAVES: tuple[Json, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, 1e300, "", "x", "7",
    "-3", [], {}, [[]], [None], {"": None}, [1, "2", {"3": 4}], {"a": {"b": []}},
)  # fmt: skip


_MOST_LEVELS = 900  # Python writes JSON of about 1,000


def any_type(value: Json, random: Random) -> Json:
    for holder, key in _places(value, random, (1, 1, 2, 10)):
        holder[key] = _copied(random.choice(_LEAVES))  # later damage must not change it
    return value


def remove(value: Json, random: Random) -> Json:
    for holder, key in _places(value, random, (1, 1, 5)):
        del holder[key]
    return value


def deep(value: Json, random: Random) -> Json:
    """A value inside hundreds of lists or objects."""
    for holder, key in _places(value, random):
        as_list = random.random() < 0.5
        for _ in range(min(random.choice((10, 200, 900)), _MOST_LEVELS - _levels(value))):
            holder[key] = [holder[key]] if as_list else {"in": holder[key]}
    return value


def long_list(value: Json, random: Random) -> Json:
    for holder, key in _places(value, random):
        leaf = random.choice(_LEAVES)
        holder[key] = [_copied(leaf) for _ in range(random.choice((100, 10_000)))]
    return value


def swap(value: Json, random: Random) -> Json:
    """Two values change places, or one is copied to another place."""
    for one, a in _places(value, random):
        for other, b in _places(value, random):
            if one is other:
                one[a], one[b] = one[b], one[a]
            elif _levels(value) < _MOST_LEVELS // 2:
                one[a] = _copied(other[b])
    return value


def _levels(value: Json) -> int:
    """How deep lists and objects are nested."""
    levels, found = 0, [value]
    while found:
        parts = (one.values() if isinstance(one, dict) else one for one in found)
        found = [inner for each in parts for inner in each if isinstance(inner, dict | list)]
        levels += 1
    return levels


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _places(root: Json, random: Random, numbers: Sequence[int] = (1,)) -> Iterator[tuple[Any, Any]]:
    """Random places: an object or list, and a key or position in it; none in an empty value."""
    for _ in range(random.choice(numbers)):
        value, holder, key = root, None, None
        while isinstance(value, dict | list) and value:
            if holder is not None and random.random() < 0.25:
                break
            holder = value
            key = random.choice([*value] if isinstance(value, dict) else range(len(value)))
            value = value[key]
        if holder is not None:
            yield holder, key


TREE_MUTATORS: Mapping[str, Callable[[Json, Random], Json]] = {
    function.__name__: function for function in (any_type, remove, deep, long_list, swap)
}
# From a value to the bytes of a file, as the stages of damage need it.
CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "text": lambda value: json.dumps(value, ensure_ascii=False),
    "encoding": lambda text: text.encode(errors="surrogatepass"),
}
