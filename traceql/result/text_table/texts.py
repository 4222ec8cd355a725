"""Texts in the room that there is: sentences wrap, names are shortened in the middle.

A sentence loses its meaning with its end. A name, such as that of a kernel, is told from its
neighbours by both of its ends.
"""

import re
from collections.abc import Iterator

_WORD = re.compile(r"""["'(]*([a-z][a-z'-]*|[\d.,:]+%?)["').,;:!?]*""")
_UNBROKEN = re.compile(r"\S*\d (?:ns|µs|ms|s|[KMG]iB|[KMG]B/s)(?!\w)\S*|\S+")  # with its unit
_TYPES = frozenset({"bool", "char", "const", "float", "int", "long", "unsigned", "void"})
_JOINTS = "_/.:"  # after which a long word is broken rather than elsewhere
_FEWEST_WORDS = 4
_BECAME = " \u2192 "
_ENDING = "…"


def is_sentence(text: str) -> bool:
    """Whether a text is prose: four words or more, most of them plain words or numbers.

    What became what is prose too, whatever its names are.
    """
    if _BECAME in text:
        return True
    words = text.split()
    plain = [word for word in words if _WORD.fullmatch(word) and word.strip(",)") not in _TYPES]
    return len(words) >= _FEWEST_WORDS and 2 * len(plain) >= len(words)


def places(text: str) -> int:
    """The places of a terminal that a text takes: a letter of East Asia takes two."""
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(text: str, room: int, *, hanging: str = "") -> list[str]:
    """The lines of a text, none of which takes more places; a word that does is broken.

    Args:
        hanging: what every line but the first begins with.
    """
    lines = [""]
    for word in _UNBROKEN.findall(text):
        for part in _parts(word, room - places(hanging)):
            joined = f"{lines[-1]} {part}" if lines[-1].strip() else f"{lines[-1]}{part}"
            if places(joined) <= room:
                lines[-1] = joined
            else:
                lines.append(f"{hanging}{part}")
    return lines


def without_middle(text: str, room: int) -> str:
    """A text that takes at most so many places, with an ellipsis for its middle."""
    if places(text) <= room:
        return text
    left = room - places(_ENDING)
    end = _beginning(text[::-1], left // 2)[::-1]
    return f"{_beginning(text, left - places(end))}{_ENDING}{end}"


def _parts(word: str, room: int) -> Iterator[str]:
    while places(word) > room:
        part = _beginning(word, room) or word[0]
        joint = max(map(part.rfind, _JOINTS)) + 1
        part = part[:joint] if 2 * joint > len(part) else part
        yield part
        word = word[len(part) :]
    if word:
        yield word


def _beginning(text: str, room: int) -> str:
    """As many of the first letters as fit."""
    if len(text) == places(text):
        return text[:room]
    used = 0
    for number, letter in enumerate(text):
        used += places(letter)
        if used > room:
            return text[:number]
    return text
