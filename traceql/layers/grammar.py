"""Reads layer families: the roles that a layer of a model has, in order.

Each family is a file in families/. Its grammar has, for each role, a pattern over symbols.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from traceql.errors import DefinitionInvalid
from traceql.layers.symbols import in_letters

FAMILIES = Path(__file__).with_name("families")


@dataclass(frozen=True)
class Part:
    """Roles in their order, each with the pattern of the symbols that have it.

    A pattern may name a group, and a later one may ask whether that group matched: `(?(name)...)`.

    Attributes:
        roles: (role, pattern over names of symbols).
        begin: an anchor in front of the first pattern, such as `^`.
        end: an anchor behind the last pattern, such as `$`.
    """

    roles: tuple[tuple[str, str], ...]
    begin: str = ""
    end: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """All patterns in one regular expression over letters, with one group for each role."""
        groups = (f"(?P<role_{n}>{in_letters(p)})" for n, (_, p) in enumerate(self.roles))
        return re.compile(self.begin + "".join(groups) + self.end)

    def roles_of(self, match: re.Match[str]) -> list[str]:
        """The role of each letter in a match of the pattern."""
        return [role for n, (role, _) in enumerate(self.roles) for _ in match[f"role_{n}"] or ""]


@dataclass(frozen=True)
class Grammar:
    """One layer family.

    Attributes:
        name: the name of its file, as in rank_model.family.
        model_types: model_type in the config.json of its models.
        once: roles for which every layer has exactly one kernel that does the work.
        layer: a layer, from its first kernel to its last one.
        before: the last kernels before the first layer.
        after: the first kernels after the last layer.
    """

    name: str
    model_types: tuple[str, ...]
    once: tuple[str, ...]
    layer: Part
    before: Part
    after: Part


def grammars() -> tuple[Grammar, ...]:
    """All families. Those with the most roles are first, because they tell most about a kernel."""
    return _grammars(FAMILIES)


@cache
def _grammars(folder: Path) -> tuple[Grammar, ...]:
    found = [_read(path) for path in sorted(folder.glob("*.toml"))]
    return tuple(sorted(found, key=lambda g: -len(g.layer.roles)))


def _read(path: Path) -> Grammar:
    try:
        found = _grammar(path)
        for part in (found.layer, found.before, found.after):
            _ = part.pattern
    except (KeyError, TypeError, ValueError, re.error) as error:
        reason = " ".join(str(error).split())
        raise DefinitionInvalid(f"{path}: not a layer family ({reason})") from None
    return found


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
