"""What differs between the set-ups of two groups of runs, and what forbids a verdict."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from csv import DictReader
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from statistics import median

_SIMILAR = {"clock.sm_mhz": 0.01, "clock.throttled_pct": 10.0}  # relative, and in points
_NAME_OF_ALL_FACTS = "all"
_PARALLEL, _RANKS = "parallel", "ranks"


class Effect(StrEnum):
    """What a difference means for the numbers."""

    FORBIDS = "forbids"  # nothing can be said about speed
    WARNS = "warns"  # it may explain a difference of speed
    NOTES = "notes"  # it is what was changed, perhaps
    FOLLOWS = "follows"  # the engine decided it by itself
    IDENTIFIES = "identifies"  # it tells which run this is, and never counts
    IGNORED = "ignored"


@dataclass(frozen=True)
class Difference:
    """One fact that differs.

    Attributes:
        name: of the fact, as in the table profile_fact.
        title: the kind of fact, for people.
        effect: what it means.
        reason: why it matters; empty if it is only noted.
        base: the values of the runs of base, sorted; empty if no run recorded it.
        new: the same of new.
    """

    name: str
    title: str
    effect: Effect
    reason: str
    base: tuple[str, ...]
    new: tuple[str, ...]


def differences(
    facts: Sequence[tuple[str, int, str, str]], *, accepted: Collection[str] = ()
) -> list[Difference]:
    """The differences, those that forbid a verdict first.

    A fact that only one side knows is a difference unless the other side has no facts of its kind:
    what a plain trace does not tell is no difference.

    Args:
        facts: side, run, name and value.
        accepted: names, or beginnings of names up to a dot, of differences that forbid nothing.
    """
    values: dict[str, dict[str, dict[int, str]]] = {"base": {}, "new": {}}
    for side, run, name, value in facts:
        if not _identifies(name):
            values[side].setdefault(name, {})[run] = value
    found = list(_different(values["base"], values["new"], accepted))
    order = list(Effect)
    return sorted(found, key=lambda one: (order.index(one.effect), one.title, one.name))


def _different(
    base: Mapping[str, Mapping[int, str]],
    new: Mapping[str, Mapping[int, str]],
    accepted: Collection[str],
) -> Iterator[Difference]:
    kinds = {_kind(name) for name in base} & {_kind(name) for name in new}
    for name in sorted(base.keys() | new.keys()):
        if _kind(name) not in kinds and _kind(name) != "ledger":
            continue
        rule = _rule_of(name)
        runs = [sorted(side.get(name, {}).values()) for side in (base, new)]
        sides = [tuple(dict.fromkeys(values)) for values in runs]
        failed = rule.effect is Effect.FORBIDS and _kind(name) == "ledger"
        # The runs of a side are repeats only if they agree on what forbids a verdict.
        mixed = rule.effect is Effect.FORBIDS and max(map(len, sides)) > 1
        if rule.effect is Effect.IGNORED or (_alike(name, *runs) and not failed and not mixed):
            continue
        effect = rule.effect
        if effect is Effect.FORBIDS and is_accepted(name, accepted):
            effect = Effect.NOTES
        yield Difference(name, rule.title, effect, rule.reason, *sides)


def _kind(name: str) -> str:
    return name.split(".")[0]


def is_accepted(name: str, accepted: Collection[str]) -> bool:
    """Whether one of these is the name of the fact, its beginning up to a dot, or all.

    Who accepts another parallelism accepts the ranks that it has.
    """
    return any(
        one == _NAME_OF_ALL_FACTS
        or name == one
        or name.startswith(f"{one}.")
        or (one == _PARALLEL and _kind(name) == _RANKS)
        for one in accepted
    )


def _alike(name: str, base: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the runs of both sides have the same values; of a clock, the same median."""
    if set(base) == set(new) and name not in _SIMILAR:
        return True
    tolerance = _SIMILAR.get(name)
    if tolerance is None or not base or not new:
        return not base and not new
    low, high = (median(map(float, side)) for side in (base, new))
    scale = max(low, high) if name == "clock.sm_mhz" else 1
    return abs(high - low) <= tolerance * scale


def is_ignored(name: str) -> bool:
    """Whether a fact never counts as a difference: paths, identifiers, secrets."""
    return _rule_of(name).effect is Effect.IGNORED


def forbids(name: str) -> bool:
    """Whether runs that differ in a fact of their set-up cannot be compared."""
    return _rule_of(name).effect is Effect.FORBIDS and _kind(name) != "ledger"


def keeps_apart(name: str) -> bool:
    """Whether a history has a series for each value of a fact, even if values can be compared."""
    return _rule_of(name).keeps_apart


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    effect: Effect
    title: str
    reason: str
    keeps_apart: bool


@cache
def _rules() -> tuple[_Rule, ...]:
    with (Path(__file__).parent / "setup.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            _Rule(
                re.compile(row["pattern"]),
                Effect(row["effect"]),
                row["title"],
                row["reason"],
                row["in_history"] == "apart",
            )
            for row in DictReader(file)
        )


def _rule_of(name: str) -> _Rule:
    return next(rule for rule in _rules() if rule.pattern.fullmatch(name))


def _identifies(name: str) -> bool:
    return _rule_of(name).effect is Effect.IDENTIFIES
