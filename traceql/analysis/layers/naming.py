"""Gives the kernels of a layer their roles, by alignment with the roles that a family has.

The kernels are aligned with the roles at least cost: a role without a kernel that does its work,
and a kernel without a role, cost something each. So a kernel that is unknown, missing or additional
leaves the roles of the others as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from traceql.analysis.layers.symbols import letter

_LIGHT = frozenset(letter(n) for n in ("elementwise", "quantize", "fill", "copy", "input_prep"))
_EXCUSED = _LIGHT | {letter("unclassified")}
_EXTRA, _EXTRA_LIGHT = 1.0, 0.5  # a kernel without a role
_MISSING = 1.0  # a role without its kernel
_IDLE_HELPER = 0.6  # kernels that prepare or finish the work of a role that has none
_BEFORE, _AFTER = 0.01, 0.011  # a kernel that prepares or finishes the work of a role
_UNUSED = 0.001  # an optional role without a kernel: fewer of them fit better
_NAMELESS = 0.1  # a kernel whose role is not known, though its place is


@dataclass(frozen=True)
class Role:
    """One role of a layer.

    Attributes:
        times: how often a layer has a kernel that does its work: 1, ?, + or *.
        work: the letters of kernels that do its work.
        before: the letters of kernels that prepare it.
        after: the letters of kernels that finish it.
    """

    name: str
    times: str
    work: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]

    @property
    def is_needed(self) -> bool:
        """Whether every layer has it."""
        return self.times in "1+"

    @property
    def repeats(self) -> bool:
        """Whether several kernels may do its work."""
        return self.times in "+*"


class Alignment(NamedTuple):
    """The roles of the kernels of a layer.

    Attributes:
        cost: how badly they fit; 0 if each kernel has a role and no role lacks its kernel.
        roles: the role of each kernel; None if it has none.
        missing: the number of roles that every layer has, and this one lacks.
        additional: the number of kernels without a role, but for light and unclassified ones.
    """

    cost: float
    roles: tuple[str | None, ...]
    missing: int = 0
    additional: int = 0


class _Phase(IntEnum):
    """How far a role is done: nothing yet, kernels that prepare it, its work."""

    FRESH = 0
    PREPARED = 1
    DONE = 2


@lru_cache(maxsize=8192)
def aligned(letters: str, roles: tuple[Role, ...]) -> Alignment:
    """The alignment of a layer's kernels with roles that costs least."""
    states = len(roles) * 3
    cost = [float("inf")] * states
    cost[0] = 0.0
    steps: list[list[tuple[int, bool]]] = []
    cost, skipped = _moved_on(cost, roles)
    skips = [skipped]
    for kernel in letters:
        cost, came = _after_kernel(cost, roles, kernel)
        steps.append(came)
        cost, skipped = _moved_on(cost, roles)
        skips.append(skipped)
    total, named = _traced(cost, steps, skips, roles)
    return Alignment(
        total,
        named,
        sum(role.is_needed and role.name not in named for role in roles),
        sum(
            role is None and kernel not in _EXCUSED
            for kernel, role in zip(letters, named, strict=True)
        ),
    )


def _moved_on(cost: Sequence[float], roles: Sequence[Role]) -> tuple[list[float], list[int]]:
    """The costs after passing from a role to the next one, and the state that each came from."""
    found, came = list(cost), list(range(len(cost)))
    for n, role in enumerate(roles[:-1]):
        missing = _MISSING if role.is_needed else _UNUSED
        for phase, leaving in (
            (_Phase.DONE, 0.0),
            (_Phase.FRESH, missing),
            (_Phase.PREPARED, missing + _IDLE_HELPER),
        ):
            if found[3 * n + phase] + leaving < found[3 * n + 3]:
                found[3 * n + 3] = found[3 * n + phase] + leaving
                came[3 * n + 3] = 3 * n + phase
    return found, came


def _after_kernel(
    cost: Sequence[float], roles: Sequence[Role], kernel: str
) -> tuple[list[float], list[tuple[int, bool]]]:
    """The costs after one more kernel, and for each state: where from, and whether with a role."""
    extra = _EXTRA_LIGHT if kernel in _LIGHT else _EXTRA
    found = [one + extra for one in cost]
    came = [(state, False) for state in range(len(cost))]
    for n, role in enumerate(roles):
        base = 3 * n
        options = []
        if kernel in role.work:
            begins = list(_Phase) if role.repeats else [_Phase.FRESH, _Phase.PREPARED]
            price = 0.0 if role.name else _NAMELESS
            options += [(begin, _Phase.DONE, price) for begin in begins]
        if kernel in role.before:
            options += [
                (_Phase.FRESH, _Phase.PREPARED, _BEFORE),
                (_Phase.PREPARED, _Phase.PREPARED, _BEFORE),
            ]
            if role.repeats:
                options.append((_Phase.DONE, _Phase.PREPARED, _BEFORE))
        if kernel in role.after:
            options.append((_Phase.DONE, _Phase.DONE, _AFTER))
        for begin, end, price in options:
            if cost[base + begin] + price < found[base + end]:
                found[base + end] = cost[base + begin] + price
                came[base + end] = (base + begin, True)
    return found, came


def _traced(
    cost: Sequence[float],
    steps: Sequence[Sequence[tuple[int, bool]]],
    skips: Sequence[Sequence[int]],
    roles: Sequence[Role],
) -> tuple[float, tuple[str | None, ...]]:
    """The least cost, and the roles of the kernels at this cost."""
    last = 3 * (len(roles) - 1)
    missing = _MISSING if roles[-1].is_needed else _UNUSED
    ends = {
        last + _Phase.DONE: 0.0,
        last + _Phase.FRESH: missing,
        last + _Phase.PREPARED: missing + _IDLE_HELPER,
    }
    state = min(ends, key=lambda end: cost[end] + ends[end])
    total = cost[state] + ends[state]
    named: list[str | None] = []
    for came, skipped in zip(reversed(steps), reversed(skips[1:]), strict=True):
        while skipped[state] != state:
            state = skipped[state]
        state, has_role = came[state][0], came[state][1]
        named.append(None)
        if has_role:
            named[-1] = roles[state // 3].name or None
    return total, tuple(reversed(named))
