"""Names of columns: no column hides another."""

from collections.abc import Sequence
from itertools import count


def distinct_names(names: Sequence[str]) -> list[str]:
    """A repeated name gets the first number with which no other column has it."""
    taken = set(names)
    seen: set[str] = set()
    distinct = []
    for name in names:
        if name in seen:
            name = next(free for n in count(1) if (free := f"{name}_{n}") not in taken)
            taken.add(name)
        seen.add(name)
        distinct.append(name)
    return distinct
