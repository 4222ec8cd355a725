"""Reads layer families: the roles that the layers of a model have, in order.

A family is a file in families/, which names the parts (parts.toml) that its layers consist of: each
layer has one of the attention parts and then one of the feed-forward parts.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from traceql.analysis.layers.kernel_text import letter
from traceql.errors import DefinitionInvalid

FAMILIES = Path(__file__).with_name("families")
_PARTS = Path(__file__).with_name("parts.toml")
_KEYS = {"model_types", "attention", "feed_forward"}
_TIMES = frozenset("1?+*")


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


Kind = tuple[Role, ...]


@dataclass(frozen=True)
class Family:
    """One layer family.

    Attributes:
        name: the name of its file, as in rank_model.family.
        model_types: model_type in the config.json of its models.
        kinds: the roles of each kind of layer that its models may have.
    """

    name: str
    model_types: tuple[str, ...]
    kinds: tuple[Kind, ...]

    @property
    def generality(self) -> int:
        """How many symbols its roles allow: of two families that fit, the stricter one counts."""
        roles = (role for kind in self.kinds for role in kind)
        return sum(len(role.work) + len(role.before) + len(role.after) for role in roles)


def families() -> tuple[Family, ...]:
    """All families, in the order of their names."""
    return _families(FAMILIES)


def unknown_kinds() -> tuple[Kind, ...]:
    """The roles of a layer that follow from the kinds and the places of its kernels alone."""
    parts = _parts()
    return tuple(
        parts[first] + parts[second]
        for first in ("unknown_attention", "unknown_state")
        for second in ("unknown_mlp", "unknown_experts")
    )


def side_stream_kinds() -> tuple[Kind, ...]:
    """The roles of kernels that run beside the main stream of a layer."""
    return (_parts()["shared_expert"],)


@cache
def _families(folder: Path) -> tuple[Family, ...]:
    found = tuple(_read(path) for path in sorted(folder.glob("*.toml")))
    _require_own_model_types(found, folder)
    return found


def _require_own_model_types(found: Sequence[Family], folder: Path) -> None:
    owner: dict[str, str] = {}
    for model_type, name in ((t, one.name) for one in found for t in one.model_types):
        if model_type in owner:
            files = f"{owner[model_type]}.toml and {name}.toml"
            raise DefinitionInvalid(f"{folder}: {files} have the same model type '{model_type}'")
        owner[model_type] = name


def _read(path: Path) -> Family:
    try:
        return _family(path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DefinitionInvalid(f"{path}: not a layer family ({reason})") from None


def _family(path: Path) -> Family:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    if wrong := sorted(_KEYS ^ data.keys()):
        what = "it has no" if wrong[0] in _KEYS else "unknown key"
        raise ValueError(f"{what} '{wrong[0]}'")
    attention, feed_forward = (
        [_part(name) for name in _texts(data, key)] for key in ("attention", "feed_forward")
    )
    kinds = tuple(first + second for first, second in product(attention, feed_forward))
    if not kinds:
        raise ValueError("it has no parts")
    return Family(path.stem, tuple(_texts(data, "model_types")), kinds)


def _part(name: str) -> Kind:
    if name not in _parts():
        raise ValueError(f"'{name}' is not in {_PARTS.name}")
    return _parts()[name]


@cache
def _parts() -> Mapping[str, Kind]:
    data = tomllib.loads(_PARTS.read_text(encoding="utf-8"))
    found: dict[str, Kind] = {}
    for name, part in data.items():
        rows = tuple(_role(row) for row in part["roles"])
        found[name] = (
            _changed(found[part["like"]], rows, part.get("behind")) if "like" in part else rows
        )
    return found


def _changed(base: Kind, rows: Kind, behind: str | None) -> Kind:
    """The roles of a part that is like another one."""
    if behind is None:
        own = {role.name: role for role in rows}
        return tuple(own.get(role.name, role) for role in base)
    at = [role.name for role in base].index(behind) + 1
    return base[:at] + rows + base[at:]


def _role(row: Sequence[str]) -> Role:
    name, times, *symbols = row
    if times not in _TIMES:
        raise ValueError(f"'{times}' is none of {' '.join(sorted(_TIMES))}")
    work, before, after = (frozenset(map(letter, names.split())) for names in symbols)
    return Role(name, times, work, before, after)


def _texts(data: Mapping[str, Any], key: str) -> list[str]:
    given = data[key]
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError(f"'{key}' is not a list of texts")
    return given
