"""Reads symbols: the kinds of kernel that layer families tell apart.

They are defined in symbols.csv, which is the only place that knows their letters. Its columns:

letter: stands for a kernel of this kind in the text of a stream.
name: stands for it in the patterns of layer families.
category, pattern: the kernels that the symbol is for. Of the symbols of a category, the first one
    whose pattern matches the kernel's name counts.
traits: where such kernels run and what they are for (see `Trait`).
role_outside_layers: the role of such kernels outside layers; empty if the symbol does not tell.
"""

import csv
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("symbols.csv")
_NAME = re.compile("[A-Za-z_]+")


class Trait(StrEnum):
    """A property of a symbol's kernels.

    BETWEEN_PASSES: they separate two forward passes of a step.
    OUTSIDE_LAYERS: one of them comes directly before the first layer of a pass.
    INSIDE_LAYERS: they run only in layers.
    ANCHORS_LAYER: they run once in every layer that has attention or a state.
    FEED_FORWARD: they run only in the MLP or the experts of a layer.
    MOVES_DATA: they prepare input before the layers, and belong to sampling after them.
    DOES_WORK: they do the work of their role; other kernels of the role only help.
    OPTIONAL: one layer may have them and another layer may not.
    """

    BETWEEN_PASSES = "between_passes"
    OUTSIDE_LAYERS = "outside_layers"
    INSIDE_LAYERS = "inside_layers"
    ANCHORS_LAYER = "anchors_layer"
    FEED_FORWARD = "feed_forward"
    MOVES_DATA = "moves_data"
    DOES_WORK = "does_work"
    OPTIONAL = "optional"


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
