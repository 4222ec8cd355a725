"""Suggests names that a user may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, names: Iterable[str]) -> str:
    """A question with all names of the group (`comm` has `comm.skew`), or else the nearest few.

    Empty if no name is close.
    """
    known = list(names)
    group = [n for n in known if n.startswith(f"{name}.")]
    near = group or get_close_matches(name, known, cutoff=0.5)
    if not near:
        return ""
    *first, last = (f"'{n}'" for n in near)
    return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"
