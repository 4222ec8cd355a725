"""Reads layer families: the roles that a layer of a model has, in order.

Each family is a file in families/. Its grammar has, for each role, a pattern over symbols.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from traceql.errors import DefinitionInvalid
from traceql.layers.symbols import in_letters

FAMILIES = Path(__file__).with_name("families")
_KEYS = {"model_types", "once", "layer", "before", "after"}


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
    _require_own_model_types(found, folder)
    return tuple(sorted(found, key=lambda g: -len(g.layer.roles)))


def _require_own_model_types(found: Sequence[Grammar], folder: Path) -> None:
    owner: dict[str, str] = {}
    for model_type, name in ((t, one.name) for one in found for t in one.model_types):
        if model_type in owner:
            files = f"{owner[model_type]}.toml and {name}.toml"
            raise DefinitionInvalid(f"{folder}: {files} have the same model type '{model_type}'")
        owner[model_type] = name


def _read(path: Path) -> Grammar:
    try:
        found = _grammar(path)
        _require_usable(found)
    except (OSError, ValueError, re.error) as error:
        reason = " ".join(str(error).split())
        raise DefinitionInvalid(f"{path}: not a layer family ({reason})") from None
    return found


def _grammar(path: Path) -> Grammar:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    if wrong := sorted(_KEYS ^ data.keys()):
        what = "it has no" if wrong[0] in _KEYS else "unknown key"
        raise ValueError(f"{what} '{wrong[0]}'")
    return Grammar(
        path.stem,
        _texts(data, "model_types"),
        _texts(data, "once"),
        _part(data, "layer"),
        _part(data, "before", end="$"),
        _part(data, "after", begin="^"),
    )


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    if not _is_texts(data[key]):
        raise ValueError(f"'{key}' is not a list of texts")
    return tuple(data[key])


def _part(data: Mapping[str, Any], key: str, *, begin: str = "", end: str = "") -> Part:
    roles = data[key]
    if not isinstance(roles, list) or not all(_is_texts(r) and len(r) == 2 for r in roles):
        raise ValueError(f"'{key}' is not a list of [role, pattern]")
    return Part(tuple((role, pattern) for role, pattern in roles), begin, end)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _require_usable(grammar: Grammar) -> None:
    """Raises ValueError or re.error if a pattern or a role cannot be meant."""
    for part in (grammar.layer, grammar.before, grammar.after):
        _ = part.pattern
        for (role, _), (after, _) in pairwise(part.roles):
            if role == after:
                raise ValueError(f"'{role}' comes twice in a row; join the two patterns")
    if grammar.layer.pattern.match(""):
        raise ValueError("a layer may have no kernels; one pattern must need a kernel")
    roles = {role for role, _ in grammar.layer.roles}
    if unknown := sorted(set(grammar.once) - roles):
        raise ValueError(f"'once' names '{unknown[0]}', which is no role of a layer")
