"""Damages the text of JSON: strings, numbers, keys and the encoding."""

import codecs
import json
import re
from collections.abc import Callable, Mapping
from random import Random

_STRING = re.compile(r'(?<=": )"[^"\\]*"')
_NUMBER = re.compile(r"(?<=[ \[])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=[,\]}])")
_KEY = re.compile(r'"(\w+)":')
ODD_TEXTS = (
    "", " ", "\x00", "a\x00b", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "\r\n", "\u2028",
    "</script><script>alert(1)</script>", "<b>&amp;", "[red]markup[/red]", "[/]", "[link=x]y", "\\",
    "'; DROP TABLE slice; --", "$1 {} %s %(x)s", "../../etc/passwd", "%2e%2e%2f", "\u202eright",
    "e\u0301", "\U0001f600", "a" * 5_000, "NaN, [Infinity]", '": {"ph": "X"', "{", "traceEvents",
    "\ufeff", "\ufffe\uffff", "=1+1", "nccl:all_reduce", "ProfilerStep#5", "execute_context_1(5)",
)  # fmt: skip
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


def odd_string(text: str, random: Random) -> str:
    return _put(_STRING, json.dumps(random.choice(ODD_TEXTS)), text, random)


def odd_string_unescaped(text: str, random: Random) -> str:
    """Control characters and markup as they are, which JSON forbids for the former."""
    odd = json.dumps(random.choice(ODD_TEXTS), ensure_ascii=False)
    return _put(_STRING, odd.encode("utf-8").decode("unicode_escape", "ignore"), text, random)


def odd_escape(text: str, random: Random) -> str:
    return _put(_STRING, random.choice(_ODD_STRINGS), text, random)


def odd_number(text: str, random: Random) -> str:
    return _put(_NUMBER, random.choice(_ODD_NUMBERS), text, random)


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


def white_space(text: str, random: Random) -> str:
    between = random.choice(("\n", "\r\n", "\t", " " * 300))
    return text.replace(", ", f",{between}")


def _put(place: "re.Pattern[str]", new: str, text: str, random: Random) -> str:
    for _ in range(random.choice((1, 1, 1, 8))):
        found = _any(place, text, random)
        if found is not None:
            text = text[: found.start()] + new + text[found.end() :]
    return text


def _any(place: "re.Pattern[str]", text: str, random: Random) -> "re.Match[str] | None":
    """The first match behind a random position, or else the first one."""
    return place.search(text, random.randrange(len(text) + 1)) or place.search(text)


MUTATORS: Mapping[str, Callable[[str, Random], str]] = {
    function.__name__: function
    for function in (
        odd_string, odd_string_unescaped, odd_escape, odd_number, odd_time, duplicate_key,
        escaped_key, white_space,
    )
}  # fmt: skip


def _bom(text: bytes, random: Random) -> bytes:
    return codecs.BOM_UTF8 * random.choice((1, 1, 2)) + text


def _encoded(name: str) -> Callable[[bytes, Random], bytes]:
    return lambda text, _random: text.decode(errors="replace").encode(name, "replace")


def _stray_bytes(text: bytes, random: Random) -> bytes:
    """Bytes that are not UTF-8 inside of names."""
    name = re.compile(rb'(?<="name": ")')
    found = name.search(text, random.randrange(len(text) + 1))
    at = found.end() if found else 0
    return text[:at] + random.choice((b"\xff", b"\xc3", b"\xe9\xe8", b"\xed\xa0\x80")) + text[at:]


ENCODINGS: Mapping[str, Callable[[bytes, Random], bytes]] = {
    "byte_order_mark": _bom,
    "utf-16": _encoded("utf-16"),
    "latin-1": _encoded("latin-1"),
    "utf-32": _encoded("utf-32"),
    "stray_bytes": _stray_bytes,
}
