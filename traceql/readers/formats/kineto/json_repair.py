r"""Turns the JSON that profilers write into JSON that parsers accept, without losing anything.

Traces contain three things that are not JSON or not Unicode: bare `NaN` and `Infinity`, surrogate
escapes without their other half, and bytes that are not UTF-8. Each is replaced by a string that
shows the original: `"NaN"`, `\ud800` as six characters, `\xff` as four.
"""

import codecs
import re

_NON_FINITE = re.compile(
    rb"(?<=[:,\[\s])(?:-?NaN|-?Infinity|-?nan|-?inf)(?=\s*[,}\]])",
)
_SPELLED_OUT = "traceql.spelled_out"
_QUOTE_OR_ESCAPE = re.compile(rb'\\.|"', re.DOTALL)
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: kept
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half a pair: group 1
    rb"|.)",
    re.DOTALL,
)


def repaired_json(text: bytes) -> bytes:
    """`text` with non-finite numbers in quotes and lone surrogates spelled out."""
    if b"\\u" in text:
        text = _ESCAPES.sub(_spell_lone_surrogate, text)
    return _quote_non_finite(text)


def valid_utf8(text: bytes) -> bytes:
    """`text` with all bytes that are not UTF-8 spelled out."""
    if text.isascii():
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode(errors=_SPELLED_OUT).encode()
    return text


def _spell_out(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(f"\\\\x{byte:02x}" for byte in wrong), error.end


codecs.register_error(_SPELLED_OUT, _spell_out)


def _spell_lone_surrogate(escape: re.Match[bytes]) -> bytes:
    lone: bytes | None = escape[1]
    return escape[0] if lone is None else b"\\\\" + lone


def _quote_non_finite(text: bytes) -> bytes:
    """Puts each bare NaN or Infinity in quotes, except inside strings.

    A position is inside a string if an odd number of quotes precedes it.
    """
    parts: list[bytes] = []
    end, in_string = 0, False
    for found in _NON_FINITE.finditer(text):
        between = text[end : found.start()]
        in_string ^= _quotes(between) % 2 == 1
        parts += [between, found[0] if in_string else b'"%s"' % found[0]]
        end = found.end()
    return b"".join([*parts, text[end:]])


def _quotes(text: bytes) -> int:
    """The number of quotes that open or close a string."""
    if b"\\" not in text:
        return text.count(b'"')
    return sum(token == b'"' for token in _QUOTE_OR_ESCAPE.findall(text))
