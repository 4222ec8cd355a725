"""Symbols: the letter, name and traits of each kind of kernel that layer families tell apart.

symbols.csv defines them, and is the only place that knows their letters. Its columns:

letter, name: what stands for a kernel of this kind in a stream's text, and in patterns.
category, pattern: which kernels it is for; the first symbol of a category that matches counts.
traits: what code asks for (see `Trait`).
role_outside_layers: the role of such kernels outside layers.
"""

import csv
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("symbols.csv")
# A name in a pattern, but not the name of a group or the condition on one.
_NAME = re.compile(r"(\(\?P<\w+>|\(\?\(\w+\))|([a-z_]+)")


class Trait(StrEnum):
    """What code asks of a symbol's kernels.

    BETWEEN_PASSES: one of them stands between two forward passes of a step.
    OUTSIDE_LAYERS: one of them may stand directly before the first layer.
    BESIDE_LAYERS: the same, with one of those before it.
    INSIDE_LAYERS: they run in layers only.
    MOVES_DATA: they prepare input before the layers and belong to sampling after them.
    DOES_WORK: they do the work of their role; the others of a role help.
    OPTIONAL: one layer may have them and another not.
    """

    BETWEEN_PASSES = "between_passes"
    OUTSIDE_LAYERS = "outside_layers"
    BESIDE_LAYERS = "beside_layers"
    INSIDE_LAYERS = "inside_layers"
    MOVES_DATA = "moves_data"
    DOES_WORK = "does_work"
    OPTIONAL = "optional"


@dataclass(frozen=True)
class Symbol:
    """One kind of kernel."""

    letter: str
    name: str
    category: str
    pattern: str
    traits: frozenset[Trait]
    role_outside_layers: str | None
    note: str


@cache
def symbols() -> tuple[Symbol, ...]:
    """All symbols, in the order in which they are tried."""
    with _FILE.open(newline="", encoding="utf-8") as file:
        return tuple(
            Symbol(
                row["letter"],
                row["name"],
                row["category"],
                row["pattern"],
                frozenset(map(Trait, row["traits"].split())),
                row["role_outside_layers"] or None,
                row["note"],
            )
            for row in csv.DictReader(file)
        )


@cache
def letter(name: str) -> str:
    """The letter of the symbol of this name.

    Raises:
        KeyError: there is no such symbol.
    """
    return {symbol.name: symbol.letter for symbol in symbols()}[name]


@cache
def letters(trait: Trait) -> str:
    """The letters of all symbols with a trait."""
    return "".join(symbol.letter for symbol in symbols() if trait in symbol.traits)


def in_letters(pattern: str) -> str:
    """A pattern over names of symbols as a regular expression over their letters.

    `[fill quantize]* gemm gemm_sum?` becomes `[mq]*gs?`: white space means nothing.

    Raises:
        KeyError: there is no symbol of a name in it.
    """
    return "".join(_NAME.sub(lambda found: found[1] or letter(found[2]), pattern).split())
