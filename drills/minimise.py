"""Delta debugging: the fewest items with which something still fails."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def smallest(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> Sequence[Item]:
    """A part of `items`, in order, that fails and from which no single item can be left out.

    `fails(items)` is taken for granted. If `fails` gives up and always returns False, what was
    found so far is returned.
    """
    parts = 2
    while items:
        size = max(1, -(-len(items) // parts))
        starts = range(0, len(items), size)
        without = ([*items[:start], *items[start + size :]] for start in starts)
        if (found := next((rest for rest in without if fails(rest)), None)) is not None:
            items, parts = found, max(2, parts - 1)
        elif size == 1:
            return items
        else:
            parts = min(len(items), 2 * parts)
    return items
