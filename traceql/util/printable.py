r"""Text of traces, files and users as people may see it: no character of it does anything.

A name in a trace may hold any character. Those that a terminal or a page would obey instead of
showing them are written as in Python: `\x1b` for the character that begins an escape sequence.
"""

import re

_OBEYED = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # change the direction of writing
    "\u2028\u2029"  # end a line
    "\ud800-\udfff\ufffe\uffff"  # no characters; XML forbids them, and UTF-8 the first
    "]"
)
_BLANKS = re.compile(r"[ \t\n\v\f\r]+")
_ENDING = "…"


def printable(text: str) -> str:
    r"""The text with every character that is obeyed written as `\x1b`; lines stay lines."""
    return text if text.isprintable() else _OBEYED.sub(_escaped, text)


def one_line(text: str) -> str:
    """The same, as one line with single spaces."""
    return printable(_BLANKS.sub(" ", text).strip(" "))


def shortened(text: str, letters: int) -> str:
    """The beginning of a text that is longer than that."""
    return text if len(text) <= letters else text[: letters - 1] + _ENDING


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
