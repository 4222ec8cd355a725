"""Layer grammars: what kernels a model's layer consists of, in order. Data in queries/layers."""

import csv
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from traceql.resources import QUERIES

_FOLDER = QUERIES / "layers"


@dataclass(frozen=True)
class Symbol:
    """The letter for kernels of a category whose name matches; the first that does counts."""

    letter: str
    category: str
    pattern: str


@dataclass(frozen=True)
class Part:
    """Roles in order, each with the pattern over symbols that it takes.

    A pattern may name a group, and a later one ask whether that group matched: `(?(name)...)`.
    """

    roles: tuple[tuple[str, str], ...]
    begin: str = ""  # what the first and the last pattern have to stand at
    end: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        groups = (f"(?P<role_{n}>{pattern})" for n, (_, pattern) in enumerate(self.roles))
        return re.compile(self.begin + "".join(groups) + self.end)

    def roles_of(self, match: re.Match[str]) -> list[str]:
        """The role of each symbol that was matched."""
        return [role for n, (role, _) in enumerate(self.roles) for _ in match[f"role_{n}"] or ""]


@dataclass(frozen=True)
class Grammar:
    """One architecture family."""

    name: str
    model_types: tuple[str, ...]  # of config.json
    layer: Part
    before: Part  # up to the first layer
    after: Part  # from the last layer on


@cache
def symbols() -> tuple[Symbol, ...]:
    with (_FOLDER / "symbols.csv").open(newline="", encoding="utf-8") as file:
        return tuple(
            Symbol(row["symbol"], row["category"], row["pattern"]) for row in csv.DictReader(file)
        )


@cache
def grammars() -> tuple[Grammar, ...]:
    """All families, those with the longest layers first: they say most of a kernel."""
    found = [_grammar(path) for path in sorted(_FOLDER.glob("*.toml"))]
    return tuple(sorted(found, key=lambda g: -len(g.layer.roles)))


def _grammar(path: Path) -> Grammar:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return Grammar(
        path.stem,
        tuple(data["model_types"]),
        _part(data["layer"]),
        _part(data["before"], end="$"),
        _part(data["after"], begin="^"),
    )


def _part(roles: Sequence[Sequence[str]], *, begin: str = "", end: str = "") -> Part:
    return Part(tuple((role, pattern) for role, pattern in roles), begin, end)
