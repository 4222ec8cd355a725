"""Layer families: which kernels a model's layer consists of, in order.

Each family is a file of families/. Its grammar gives roles their pattern over symbols.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from traceql.layers.symbols import in_letters

FAMILIES = Path(__file__).with_name("families")


@dataclass(frozen=True)
class Part:
    """Roles in order, each with the pattern of the symbols that it takes.

    A pattern may name a group, and a later one ask whether that group matched: `(?(name)...)`.
    """

    roles: tuple[tuple[str, str], ...]
    begin: str = ""  # what the first and the last pattern have to stand at
    end: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        groups = (f"(?P<role_{n}>{in_letters(p)})" for n, (_, p) in enumerate(self.roles))
        return re.compile(self.begin + "".join(groups) + self.end)

    def roles_of(self, match: re.Match[str]) -> list[str]:
        """The role of each symbol that was matched."""
        return [role for n, (role, _) in enumerate(self.roles) for _ in match[f"role_{n}"] or ""]


@dataclass(frozen=True)
class Grammar:
    """One family.

    Attributes:
        name: as in rank_model.family.
        model_types: model_type of the config.json of its models.
        once: roles of which every layer has exactly one kernel that does the work.
        layer: a layer, from the first of its kernels to the last.
        before: what runs up to the first layer.
        after: what runs from the last layer on.
    """

    name: str
    model_types: tuple[str, ...]
    once: tuple[str, ...]
    layer: Part
    before: Part
    after: Part


def grammars() -> tuple[Grammar, ...]:
    """All families, those with the longest layers first: they say most about a kernel."""
    return _grammars(FAMILIES)


@cache
def _grammars(folder: Path) -> tuple[Grammar, ...]:
    found = [_grammar(path) for path in sorted(folder.glob("*.toml"))]
    return tuple(sorted(found, key=lambda g: -len(g.layer.roles)))


def _grammar(path: Path) -> Grammar:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return Grammar(
        path.stem,
        tuple(data["model_types"]),
        tuple(data["once"]),
        _part(data["layer"]),
        _part(data["before"], end="$"),
        _part(data["after"], begin="^"),
    )


def _part(roles: Sequence[Sequence[str]], *, begin: str = "", end: str = "") -> Part:
    return Part(tuple((role, pattern) for role, pattern in roles), begin, end)
