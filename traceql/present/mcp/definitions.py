"""The definitions of all terms and numbers, a section at a time."""

import re

from traceql.errors import TraceqlError
from traceql.util.resources import DEFINITIONS

_HEADING = re.compile(r"^(#{2,}) (.+)$", re.MULTILINE)


def all_definitions() -> str:
    return DEFINITIONS.read_text(encoding="utf-8")


def sections() -> dict[str, str]:
    """The text of each section, with its heading and its subsections."""
    text = all_definitions()
    heads = list(_HEADING.finditer(text))
    found = {}
    for number, head in enumerate(heads):
        later = (other.start() for other in heads[number + 1 :] if len(other[1]) <= len(head[1]))
        found[head[2]] = text[head.start() : next(later, len(text))].strip()
    return found


def section_named(name: str) -> str:
    """A section, whatever the case of its heading.

    Raises:
        TraceqlError: there is none; the message lists those that have the word.
    """
    found = sections()
    word = name.casefold()
    for heading, text in found.items():
        if heading.casefold() == word:
            return text
    near = [heading for heading, text in found.items() if word in text.casefold()]
    told = f"it is in: {', '.join(near)}" if near else f"there are: {', '.join(found)}"
    raise TraceqlError(f"no section '{name}'; {told}")
