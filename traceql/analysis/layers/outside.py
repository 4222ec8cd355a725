"""Gives the kernels before and after the layers of a forward pass their roles."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

import numpy as np

from traceql.analysis.layers.numbering import Layers
from traceql.analysis.layers.stream import Stream
from traceql.analysis.layers.symbols import Trait, in_letters, letters, symbols
from traceql.analysis.layers.unfused import CONTINUED, expanded

_FILE = Path(__file__).with_name("outside.toml")
_BY_SYMBOL = {s.letter: s.role_outside_layers for s in symbols() if s.role_outside_layers}
_MOVES_DATA = letters(Trait.MOVES_DATA)
Roles = tuple[str | None, ...]


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
    """The roles outside layers that the letter of a kernel alone tells."""
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
