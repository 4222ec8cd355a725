"""Gives the kernels of a forward pass their roles, by the family of the model.

A family is a file in families/, which names the parts (parts.toml) that its layers consist of: each
layer has one of the attention parts and then one of the feed-forward parts. The kernels of a layer
are aligned with these roles at least cost: a role without a kernel that does its work, and a kernel
without a role, cost something each. So an unknown, missing or additional kernel leaves the roles of
the others as they are. Patterns in outside.toml give roles to the kernels before the first and
after the last layer. Where modules are recorded, modules.csv gives their kernels roles instead.
"""

import csv
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from traceql.analysis.layers.boundary_evidence import UNKNOWN
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
from traceql.errors import DefinitionInvalid

FAMILIES = Path(__file__).with_name("families")
_PARTS = Path(__file__).with_name("parts.toml")
_OUTSIDE = Path(__file__).with_name("outside.toml")
_MODULES = Path(__file__).with_name("modules.csv")
_KEYS = {"model_types", "attention", "feed_forward"}
_TIMES = frozenset("1?+*")

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
    for role, names in (
        ("attention", ("attention", "attention_combine")),
        ("kv_write", ("kv_write",)),
        ("conv", ("state_update", "state_prefill")),
        ("rope", ("rope",)),
        ("topk", ("topk",)),
        ("moe_align", ("expert_sort",)),
        ("moe_sum", ("expert_sum",)),
    )
    for symbol in names
}
# The roles outside layers that follow from the letter of a kernel alone.
ROLES_BY_SYMBOL = {s.letter: s.role_outside_layers for s in symbols() if s.role_outside_layers}
_MOVES_DATA = letters(Trait.MOVES_DATA)
Roles = tuple[str | None, ...]


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


Kind = tuple[Role, ...]  # the roles of one kind of layer


@dataclass(frozen=True)
class Family:
    """One layer family.

    Attributes:
        name: the name of its file, as in rank_model.family.
        model_types: model_type in the config.json of its models.
        kinds: the kinds of layers that its models may have.
    """

    name: str
    model_types: tuple[str, ...]
    kinds: tuple[Kind, ...]


def families() -> tuple[Family, ...]:
    """All families, in the order of their names."""
    return _families(FAMILIES)


@cache
def _families(folder: Path) -> tuple[Family, ...]:
    found = tuple(_read(path) for path in sorted(folder.glob("*.toml")))
    owner: dict[str, str] = {}
    for model_type, name in ((t, one.name) for one in found for t in one.model_types):
        if model_type in owner:
            files = f"{owner[model_type]}.toml and {name}.toml"
            raise DefinitionInvalid(f"{folder}: {files} have the same model type '{model_type}'")
        owner[model_type] = name
    return found


def _read(path: Path) -> Family:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if wrong := sorted(_KEYS ^ data.keys()):
            what = "it has no" if wrong[0] in _KEYS else "unknown key"
            raise ValueError(f"{what} '{wrong[0]}'")
        parts = [_named_parts(data, key) for key in ("attention", "feed_forward")]
        if not all(parts):
            raise ValueError("it has no parts")
        kinds = tuple(first + second for first, second in product(*parts))
        return Family(path.stem, tuple(_texts(data, "model_types")), kinds)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DefinitionInvalid(f"{path}: not a layer family ({reason})") from None


def _named_parts(data: Mapping[str, Any], key: str) -> list[Kind]:
    names = _texts(data, key)
    if unknown := [name for name in names if name not in _parts()]:
        raise ValueError(f"'{unknown[0]}' is not in {_PARTS.name}")
    return [_parts()[name] for name in names]


def _texts(data: Mapping[str, Any], key: str) -> list[str]:
    given = data[key]
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError(f"'{key}' is not a list of texts")
    return given


@cache
def _parts() -> Mapping[str, Kind]:
    found: dict[str, Kind] = {}
    for name, part in tomllib.loads(_PARTS.read_text(encoding="utf-8")).items():
        rows = tuple(_role(row) for row in part["roles"])
        base = found[part["like"]] if "like" in part else ()
        if "behind" in part:
            at = [role.name for role in base].index(part["behind"]) + 1
            rows = base[:at] + rows + base[at:]
        elif base:
            own = {role.name: role for role in rows}
            rows = tuple(own.get(role.name, role) for role in base)
        found[name] = rows
    return found


def _role(row: Sequence[str]) -> Role:
    name, times, *symbols = row
    if times not in _TIMES:
        raise ValueError(f"'{times}' is none of {' '.join(sorted(_TIMES))}")
    work, before, after = (frozenset(map(letter, names.split())) for names in symbols)
    return Role(name, times, work, before, after)


class Alignment(NamedTuple):
    """The roles of the kernels of a layer.

    Attributes:
        cost: how badly they fit; 0 if each kernel has a role and no role lacks its kernel.
        roles: the role of each kernel; None if it has none.
        missing: the number of roles that every layer has, and this one lacks.
        additional: the number of kernels without a role, but for light and unclassified ones.
    """

    cost: float
    roles: Roles
    missing: int = 0
    additional: int = 0


class _Phase(IntEnum):
    """How far a role is done: nothing yet, kernels that prepare it, its work."""

    FRESH = 0
    PREPARED = 1
    DONE = 2


# The least cost of the kernels up to one, and their roles: that of the last kernel, behind those
# of the others. A list has one for each phase of each role, and one for what follows the last role.
_Ways = list[tuple[float, tuple[Any, ...]]]


@lru_cache(maxsize=8192)
def aligned(letters: str, roles: Kind) -> Alignment:
    """The alignment of a layer's kernels with roles that costs least."""
    ways: _Ways = [(float("inf"), ())] * (len(roles) * 3 + 1)
    ways[0] = (0.0, ())
    _move_on(ways, roles)
    for kernel in letters:
        ways = _after_kernel(ways, roles, kernel)
        _move_on(ways, roles)
    cost, way = ways[-1]
    named: list[str | None] = []
    while way:
        way, name = way
        named.append(name)
    named.reverse()
    return Alignment(
        cost,
        tuple(named),
        sum(role.is_needed and role.name not in named for role in roles),
        sum(n is None and k not in _EXCUSED for k, n in zip(letters, named, strict=True)),
    )


def _move_on(ways: _Ways, roles: Kind) -> None:
    """Passes from each role to the next one where that costs less."""
    for n, role in enumerate(roles):
        missing = _MISSING if role.is_needed else _UNUSED
        for phase, price in (
            (_Phase.DONE, 0.0),
            (_Phase.FRESH, missing),
            (_Phase.PREPARED, missing + _IDLE_HELPER),
        ):
            cost, way = ways[3 * n + phase]
            if cost + price < ways[3 * n + 3][0]:
                ways[3 * n + 3] = cost + price, way


def _after_kernel(ways: _Ways, roles: Kind, kernel: str) -> _Ways:
    extra = _EXTRA_LIGHT if kernel in _LIGHT else _EXTRA
    found: _Ways = [(cost + extra, (way, None)) for cost, way in ways]
    found[-1] = (float("inf"), ())
    for n, role in enumerate(roles):
        begins = list(_Phase) if role.times in "+*" else [_Phase.FRESH, _Phase.PREPARED]
        price = 0.0 if role.name else _NAMELESS
        moves = [(begin, _Phase.DONE, price) for begin in begins if kernel in role.work]
        moves += [(begin, _Phase.PREPARED, _BEFORE) for begin in begins if kernel in role.before]
        moves += [(_Phase.DONE, _Phase.DONE, _AFTER)] if kernel in role.after else []
        for begin, end, price in moves:
            cost, way = ways[3 * n + begin]
            if cost + price < found[3 * n + end][0]:
                found[3 * n + end] = cost + price, (way, role.name or None)
    return found


def family(texts: Mapping[str, int], model_type: str | None) -> Family | None:
    """The family whose roles fit the layers best; None if none fits.

    Args:
        texts: the letters of layers, and how often they occur.
        model_type: model_type in the model's configuration, if it is known. Of a model that is in
            no family's file, the family is unknown.
    """
    often = sorted(texts, key=lambda text: (-texts[text], text))[:_COMPARED]
    # One that occurs once may be damaged if others recur.
    often = [text for text in often if texts[text] > 1] or often
    fitting = []
    for one in families():
        if model_type and model_type not in one.model_types:
            continue
        total, exceptions = 0.0, 0
        for text in often:
            kernels = text.replace(CONTINUED, "")
            found = _cheapest(kernels, one.kinds)
            is_other = found.missing > kernels.count(UNKNOWN) or found.additional
            exceptions += texts[text] * bool(is_other or not _fits(found))
            total += texts[text] * found.cost
        compared = sum(texts[text] for text in often)
        if exceptions <= _EXCEPTIONS * compared:
            # Of two families that fit, the one counts whose roles allow fewer symbols.
            allowed = sum(
                len(r.work) + len(r.before) + len(r.after) for kind in one.kinds for r in kind
            )
            fitting.append((round(total / compared, 1), len(one.kinds), allowed, one.name, one))
    return min(fitting)[-1] if fitting else None


def roles(text: str, chosen: Family | None) -> Roles:
    """The role of each kernel of a layer; None if it has none."""
    return expanded(text, _best(text.replace(CONTINUED, ""), chosen))


def side_stream_roles(text: str) -> Roles:
    """The role of each kernel of a layer on a side stream."""
    found = aligned(text.replace(CONTINUED, ""), _parts()["shared_expert"])
    return expanded(text, found.roles if _fits(found) else (None,) * len(found.roles))


@lru_cache(maxsize=8192)
def _best(text: str, chosen: Family | None) -> Roles:
    """The roles in the kind of layer that fits best."""
    if chosen:
        found = _cheapest(text, chosen.kinds)
        if _fits(found):
            return found.roles
    names = product(("unknown_attention", "unknown_state"), ("unknown_mlp", "unknown_experts"))
    kinds = tuple(_parts()[first] + _parts()[second] for first, second in names)
    # Where the place does not decide, the kind of the kernel may.
    named = zip(text, _cheapest(text, kinds).roles, strict=True)
    return tuple(role or _BY_KIND.get(kernel) for kernel, role in named)


def _cheapest(text: str, kinds: tuple[Kind, ...]) -> Alignment:
    return min((aligned(text, kind) for kind in kinds), key=lambda one: one.cost)


def _fits(found: Alignment) -> bool:
    return found.cost <= max(_FITS, _FITS_PER_KERNEL * len(found.roles))


def outer_spans(stream: Stream, found: Layers) -> Iterator[tuple[int, int, Roles]]:
    """The kernels before the first layer and after the last layer of the passes in each step.

    Each is (first kernel, kernel after the last one, roles). Kernels between two passes of one step
    belong to what follows the first one.
    """
    is_first, is_last = found.number == 0, found.number == (found.count or 0) - 1
    for begin, finish in pairwise(stream.step_borders.tolist()):
        low, high = np.searchsorted(found.start, (begin, finish))
        here = np.arange(low, high)
        if not len(here) or stream.step[begin] < 0:
            continue
        if is_first[here[0]]:
            first = int(found.start[here[0]])
            yield begin, first, _outside(stream.letters[begin:first], is_before=True)
        for last in here[is_last[here]].tolist():
            following = found.start[here[here > last]]
            begin_after = int(found.end[last])
            end = int(following[0]) if len(following) else finish
            yield begin_after, end, _outside(stream.letters[begin_after:end], is_before=False)


@lru_cache(maxsize=4096)
def _outside(text: str, *, is_before: bool) -> Roles:
    """The roles of the kernels on one side of the layers.

    It is what outside.toml names for the kernel, else the role of its symbol outside layers, else
    that of kernels that move data. Other work of a model that the file does not name has no role.
    """
    kernels = text.replace(CONTINUED, "")
    unnamed = "input_prep" if is_before else "sample"
    found = [ROLES_BY_SYMBOL.get(k, unnamed if k in _MOVES_DATA else None) for k in kernels]
    pattern, names = _patterns(is_before)
    if match := pattern.search(kernels):
        named = [role for n, role in enumerate(names, 1) for _ in match[n] or ""]
        found[match.start() : match.end()] = named
    return expanded(text, found)


@cache
def _patterns(is_before: bool) -> tuple[re.Pattern[str], list[str]]:
    """The patterns of one side as one over letters, with one group for each role; and the roles."""
    sides = tomllib.loads(_OUTSIDE.read_text(encoding="utf-8"))
    rows = sides["before" if is_before else "after"]
    groups = "".join(f"({in_letters(pattern)})" for _, pattern in rows)
    return re.compile(f"{groups}$" if is_before else f"^{groups}"), [role for role, _ in rows]


def module_roles() -> pa.Table:
    """The rules of modules.csv; of all that match, the one with the lowest priority decides.

    The patterns of `path` and `positions` (module.position) may match anywhere. `symbols` are
    letters; a rule without symbols is for all.
    """
    with _MODULES.open(newline="", encoding="utf-8") as file:
        rules: list[dict[str, Any]] = list(csv.DictReader(file))
    for rule in rules:
        rule["priority"] = int(rule["priority"])
        rule["symbols"] = [letter(name) for name in rule["symbols"].split()]
    return pa.Table.from_pylist(rules)
