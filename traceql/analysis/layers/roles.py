"""Gives the kernels of a forward pass their roles.

In a layer, kernels are aligned with the roles of a layer family at least cost: a role without a
kernel that does its work, and a kernel without a role, cost something each. So an unknown, missing
or additional kernel leaves the roles of the others as they are. Patterns in outside.toml give roles
to the kernels before the first and after the last layer.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from traceql.analysis.layers.boundary_evidence import UNKNOWN
from traceql.analysis.layers.families import (
    Family,
    Kind,
    Role,
    families,
    side_stream_kinds,
    unknown_kinds,
)
from traceql.analysis.layers.kernel_text import (
    CONTINUED,
    Stream,
    Trait,
    expanded,
    in_letters,
    letter,
    letters,
    symbols,
)
from traceql.analysis.layers.layer_numbers import Layers

_LIGHT = frozenset(letter(n) for n in ("elementwise", "quantize", "fill", "copy", "input_prep"))
_EXCUSED = _LIGHT | {letter("unclassified")}
_EXTRA, _EXTRA_LIGHT = 1.0, 0.5  # a kernel without a role
_MISSING = 1.0  # a role without its kernel
_IDLE_HELPER = 0.6  # kernels that prepare or finish the work of a role that has none
_BEFORE, _AFTER = 0.01, 0.011  # a kernel that prepares or finishes the work of a role
_UNUSED = 0.001  # an optional role without a kernel: fewer of them fit better
_NAMELESS = 0.1  # a kernel whose role is not known, though its place is
# The layers that occur most often decide the family.
_COMPARED = 6
# A family fits if nothing but unclassified kernels, light ones and their consequences keeps the
# layers from having exactly its roles, and if those are few: one unknown kernel in the place of a
# known one costs 2.
_FITS = 2.1
_FITS_PER_KERNEL = 0.15
# Layers that do not fit do not count against a family if they are at most such a share of those
# that were compared: they get their roles from kinds and places.
_EXCEPTIONS = 0.1
# The roles that follow from the kind of a kernel, wherever in a layer it is.
_BY_KIND = {
    letter(symbol): role
    for symbol, role in (
        ("attention", "attention"),
        ("attention_combine", "attention"),
        ("kv_write", "kv_write"),
        ("state_update", "conv"),
        ("state_prefill", "conv"),
        ("rope", "rope"),
        ("topk", "topk"),
        ("expert_sort", "moe_align"),
        ("expert_sum", "moe_sum"),
    )
}
_FILE = Path(__file__).with_name("outside.toml")
_BY_SYMBOL = {s.letter: s.role_outside_layers for s in symbols() if s.role_outside_layers}
_MOVES_DATA = letters(Trait.MOVES_DATA)
Roles = tuple[str | None, ...]


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


def family(texts: Mapping[str, int], model_type: str | None) -> Family | None:
    """The family whose roles fit the layers best; None if none fits.

    Args:
        texts: the letters of layers, and how often they occur.
        model_type: model_type in the model's configuration, if it is known. Of a model that is in
            no family's file, the family is unknown.
    """
    often = _voters(texts)
    known = [one for one in families() if model_type in one.model_types]
    candidates = known if model_type else families()
    fitting = [
        (round(cost, 1), len(one.kinds), one.generality, one.name, one)
        for one in candidates
        if (cost := _cost(often, texts, one)) is not None
    ]
    return min(fitting)[-1] if fitting else None


def _voters(texts: Mapping[str, int]) -> list[str]:
    """The texts that decide the family. One that occurs once may be damaged if others recur."""
    often = sorted(texts, key=lambda text: (-texts[text], text))[:_COMPARED]
    recurring = [text for text in often if texts[text] > 1]
    return recurring or often


def roles(text: str, chosen: Family | None) -> tuple[str | None, ...]:
    """The role of each kernel of a layer; None if it has none."""
    return expanded(text, _best(text.replace(CONTINUED, ""), chosen).roles)


def side_stream_roles(text: str) -> tuple[str | None, ...]:
    """The role of each kernel of a layer on a side stream."""
    kernels = text.replace(CONTINUED, "")
    found = _cheapest(kernels, side_stream_kinds())
    fits = _fits(found.cost, len(kernels))
    return expanded(text, found.roles if fits else (None,) * len(kernels))


@lru_cache(maxsize=8192)
def _best(text: str, chosen: Family | None) -> Alignment:
    """The alignment with the kind of layer that fits best."""
    if chosen:
        found = _cheapest(text, chosen.kinds)
        if _fits(found.cost, len(text)):
            return found
    found = _cheapest(text, unknown_kinds())
    # Where the place does not decide, the kind of the kernel may.
    roles = (role or _BY_KIND.get(kernel) for kernel, role in zip(text, found.roles, strict=True))
    return Alignment(found.cost, tuple(roles))


def _cheapest(text: str, kinds: tuple[Kind, ...]) -> Alignment:
    return min((aligned(text, kind) for kind in kinds), key=lambda one: one.cost)


def _cost(often: list[str], texts: Mapping[str, int], one: Family) -> float | None:
    """The mean cost of aligning layers with a family; None if too many do not fit."""
    total, exceptions = 0.0, 0
    for text in often:
        kernels = text.replace(CONTINUED, "")
        found = _cheapest(kernels, one.kinds)
        unknown = kernels.count(UNKNOWN)
        if found.missing > unknown or found.additional or not _fits(found.cost, len(kernels)):
            exceptions += texts[text]
        total += texts[text] * found.cost
    compared = sum(texts[text] for text in often)
    return total / compared if exceptions <= _EXCEPTIONS * compared else None


def _fits(cost: float, size: float) -> bool:
    return cost <= max(_FITS, _FITS_PER_KERNEL * size)


@dataclass(frozen=True)
class _Side:
    """The roles on one side of the layers.

    Attributes:
        roles: (role, pattern over names of symbols), in their order.
        begin: an anchor in front of the first pattern, such as `^`.
        end: an anchor behind the last pattern, such as `$`.
        unnamed: the role of copies and other kernels of trait MOVES_DATA that no pattern matches.
    """

    roles: tuple[tuple[str, str], ...]
    begin: str
    end: str
    unnamed: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """All patterns in one regular expression over letters, with one group for each role."""
        groups = (f"({in_letters(pattern)})" for _, pattern in self.roles)
        return re.compile(self.begin + "".join(groups) + self.end)


def roles_by_symbol() -> Mapping[str, str]:
    """The roles outside layers that follow from the letter of a kernel alone."""
    return _BY_SYMBOL


def outer_spans(stream: Stream, found: Layers) -> Iterator[tuple[int, int, Roles]]:
    """The kernels before the first layer and after the last layer of the passes in each step.

    Each is (first kernel, kernel after the last one, roles). Kernels between two passes of one step
    belong to what follows the first one.
    """
    if not len(found.start):
        return
    steps = stream.step
    step_ends = np.append(np.flatnonzero(np.diff(steps)) + 1, len(steps))
    step_starts = np.append(0, step_ends[:-1])
    is_first, is_last = found.number == 0, found.number == (found.count or 0) - 1
    for begin, finish in zip(step_starts.tolist(), step_ends.tolist(), strict=True):
        low, high = np.searchsorted(found.start, (begin, finish))
        here = np.arange(low, high)
        if not len(here) or steps[begin] < 0:
            continue
        if is_first[here[0]]:
            first = int(found.start[here[0]])
            yield begin, first, _roles("before", stream.letters[begin:first])
        for last in here[is_last[here]].tolist():
            following = found.start[here[here > last]]
            begin_after = int(found.end[last])
            end = int(following[0]) if len(following) else finish
            yield begin_after, end, _roles("after", stream.letters[begin_after:end])


@cache
def _side(name: str) -> _Side:
    rows = tomllib.loads(_FILE.read_text(encoding="utf-8"))[name]
    roles = tuple((role, pattern) for role, pattern in rows)
    return (
        _Side(roles, "", "$", "input_prep") if name == "before" else _Side(roles, "^", "", "sample")
    )


@lru_cache(maxsize=4096)
def _roles(name: str, text: str) -> Roles:
    """The roles of the kernels on one side of the layers.

    It is what the file names for the kernel, else the role of its symbol outside layers, else that
    of kernels that move data. Other work of a model that the file does not name has no role.
    """
    side, kernels = _side(name), text.replace(CONTINUED, "")
    found: list[str | None] = [
        _BY_SYMBOL.get(letter, side.unnamed if letter in _MOVES_DATA else None)
        for letter in kernels
    ]
    if match := side.pattern.search(kernels):
        named = [role for n, (role, _) in enumerate(side.roles, 1) for _ in match[n] or ""]
        found[match.start() : match.end()] = named
    return expanded(text, found)
