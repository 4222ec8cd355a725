"""The kernels of a stream as a text: one letter per kernel, that of its symbol.

A symbol is a kind of kernel. symbols.csv defines them, and is the only place with their letters:

letter: stands for a kernel of this kind in the text of a stream.
name: stands for it in the patterns of layer families.
category, pattern: the kernels that the symbol is for. Of the symbols of a category, the first one
    whose pattern matches the kernel's name counts.
traits: where such kernels run and what they are for (see `Trait`).
role_outside_layers: the role of such kernels outside layers; empty if the symbol does not decide.

In eager mode without a fused norm, a norm runs as several elementwise kernels: it converts to
float32, adds the residual or one to the weight, squares, takes the mean, adds epsilon, takes the
reciprocal square root, multiplies by it and by the weight, and converts back. In the text, its
first kernel has the letter of a norm, and each of the others is `CONTINUED`.
"""

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_FILE = Path(__file__).with_name("symbols.csv")
_NAME = re.compile("[A-Za-z_]+")
Int64s = npt.NDArray[np.int64]
# Kernels of PyTorch by the part of a norm that they can be; the first pattern that matches counts.
_PARTS = (
    ("r", re.compile(r"rsqrt_kernel")),
    ("m", re.compile(r"MeanOps")),
    ("p", re.compile(r"pow_tensor_scalar|square_kernel")),
    ("a", re.compile(r"CUDAFunctor(OnSelf)?_add<float>")),
    ("x", re.compile(r"MulFunctor")),
    ("c", re.compile(r"copy_kernel")),
)
# One part may be an unclassified kernel (o), but no copy or sum, which may be outside the norm.
_NORM = re.compile("(?P<lead>[ca]*)(?:pma?r|oma?r|poa?r|pma?o|pmor)(?:x+|o{1,2})c?x?")
_UNKNOWN = "o"
_NEEDED = re.compile("[pmr]")  # every norm has one of these parts
_RUN = re.compile(f"[^-]*{_NEEDED.pattern}[^-]*")  # kernels in a row that may be norms
CONTINUED = "."  # stands for every kernel of such a norm but its first one
# A run may be a damaged one if it occurs less often than this, and much less often than another.
_OFTEN = 3
_MUCH_LESS = 1 / 4


class Trait(StrEnum):
    """A property of a symbol's kernels."""

    BETWEEN_PASSES = auto()  # they separate two forward passes of a step
    OUTSIDE_LAYERS = auto()  # one of them comes directly before the first layer of a pass
    INSIDE_LAYERS = auto()  # they run only in layers
    ANCHORS_LAYER = auto()  # they run once in every layer that has attention or a state
    FEED_FORWARD = auto()  # they run only in the MLP or the experts of a layer
    MOVES_DATA = auto()  # they prepare input before the layers, and sample after them
    DOES_WORK = auto()  # they do the work of their role; other kernels of the role only help
    OPTIONAL = auto()  # one layer may have them and another layer may not


@dataclass(frozen=True)
class Symbol:
    """One symbol: a kind of kernel."""

    letter: str
    name: str
    category: str
    pattern: str
    traits: frozenset[Trait]
    role_outside_layers: str | None
    note: str


@cache
def symbols() -> tuple[Symbol, ...]:
    """All symbols, in the order in which their patterns are tried."""
    with _FILE.open(newline="", encoding="utf-8") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row["traits"] = frozenset(map(Trait, row["traits"].split()))
        row["role_outside_layers"] = row["role_outside_layers"] or None
    return tuple(Symbol(**row) for row in rows)


@cache
def letter(name: str) -> str:
    """The letter of the symbol of this name.

    Raises:
        ValueError: there is no such symbol.
    """
    found = {symbol.name: symbol.letter for symbol in symbols()}
    if name not in found:
        raise ValueError(f"no symbol '{name}'")
    return found[name]


@cache
def letters(trait: Trait) -> str:
    """The letters of all symbols with a trait."""
    return "".join(symbol.letter for symbol in symbols() if trait in symbol.traits)


def in_letters(pattern: str) -> str:
    """Translates a pattern over names of symbols into a regular expression over their letters.

    `[fill quantize]* gemm gemm_sum?` becomes `[mq]*gs?`; white space is removed.

    Raises:
        ValueError: the pattern has a name that no symbol has, or it has no name at all.
    """
    if not _NAME.search(pattern):
        raise ValueError(f"pattern '{pattern}' names no symbol")
    return "".join(_NAME.sub(lambda found: letter(found[0]), pattern).split())


@dataclass(frozen=True)
class Stream:
    """The kernels of one stream of one rank, in the order of their starts.

    Attributes:
        letters: one letter per kernel, that of its symbol.
        step: the step_id of each kernel; -1 if it has none.
    """

    letters: str
    step: Int64s

    def texts(self, starts: Iterable[int], ends: Iterable[int]) -> list[str]:
        """The letters from each start to its end; those that are equal are one object in memory."""
        found: dict[str, str] = {}
        texts = (self.letters[start:end] for start, end in zip(starts, ends, strict=True))
        return [found.setdefault(text, text) for text in texts]

    @cached_property
    def codes(self) -> npt.NDArray[np.uint8]:
        """The letters as an array of ASCII codes."""
        return np.frombuffer(self.letters.encode("ascii"), np.uint8)

    @cached_property
    def step_borders(self) -> Int64s:
        """The first kernel of each step, and the number of kernels."""
        return np.concatenate(([0], np.flatnonzero(np.diff(self.step)) + 1, [len(self.step)]))

    def step_bounds(self, at: int) -> tuple[int, int]:
        """The step that the kernel `at` is in: its first kernel, and the kernel after its last."""
        place = int(np.searchsorted(self.step_borders, at, side="right"))
        return int(self.step_borders[place - 1]), int(self.step_borders[place])

    def positions(self, letters: str) -> Int64s:
        """The kernels that have one of these letters."""
        return np.flatnonzero(np.isin(self.codes, np.frombuffer(letters.encode(), np.uint8)))


def part(name: str) -> str:
    """The letter of the part of a norm that a kernel of this name can be; `-` if it is none."""
    return next((letter for letter, pattern in _PARTS if pattern.search(name)), "-")


def parts_of_norms(names: Iterable[str]) -> Mapping[str, str]:
    """The letter of the part of each name that can be one; none if no norm can be of these."""
    parts = {name: letter for name in names if (letter := part(name)) != "-"}
    return parts if _NEEDED.search("".join(parts.values())) else {}


def part_codes(names: Iterable[str]) -> pa.Table:
    """The names of kernels that can be a part of a norm, with the code of the part's letter."""
    parts = parts_of_norms(names)
    codes = [ord(one) for one in parts.values()]
    return pa.table(
        {"name": pa.array(list(parts), pa.string()), "letter": pa.array(codes, pa.uint8())}
    )


def folded(letters: str, parts: str) -> str:
    """The letters of kernels, in which each norm of several kernels has the letter of a norm.

    Where kernels are missing in norms or others are among them, it is uncertain which of two
    adjacent norms a kernel belongs to. Such norms are unknown kernels.

    Args:
        parts: for each kernel, the letter of `part`; `-` for all that are not elementwise.
    """
    if not _NEEDED.search(parts):
        return letters
    norm, unknown = letter("norm"), letter("unclassified")
    if unknown in letters:
        pairs = zip(letters, parts, strict=True)
        parts = "".join(_UNKNOWN if kernel == unknown else part for kernel, part in pairs)
    runs = Counter(_RUN.findall(parts))
    enough = max(runs.values(), default=0) * _MUCH_LESS
    frequent = {run for run, count in runs.items() if count > enough or count >= _OFTEN}
    leads = {found["lead"] for run in frequent for found in _NORM.finditer(run)}
    kernels = list(letters)
    for run in _RUN.finditer(parts):
        begin = run.start() + (0 if run[0] in frequent else _sure_begin(run[0], leads))
        kernels[run.start() : begin] = unknown * (begin - run.start())
        for found in _NORM.finditer(parts, begin, run.end()):
            kernels[found.start() : found.end()] = norm + CONTINUED * (len(found[0]) - 1)
    return "".join(kernels)


def _sure_begin(run: str, leads: Collection[str]) -> int:
    """From which of its kernels on a rare run surely is a norm and what follows.

    It is one if it has one norm. Copies and sums before it may be something else, unless norms of
    frequent runs begin with the same ones.
    """
    found = _NORM.search(run)
    if not found or _NEEDED.search(run[: found.start()] + run[found.end() :]):
        return len(run)
    return found.start() if found["lead"] in leads else found.end("lead")


def expanded(text: str, roles: Sequence[str | None]) -> tuple[str | None, ...]:
    """The role of each kernel of a text, from those of its kernels that continue no norm."""
    given = iter(roles)
    found: list[str | None] = []
    for kernel in text:
        found.append(found[-1] if kernel == CONTINUED and found else next(given, None))
    return tuple(found)
