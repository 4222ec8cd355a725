"""What differs between the set-ups of two groups of runs, and what forbids a verdict."""

import re
from collections.abc import Collection, Sequence
from csv import DictReader
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

_SIMILAR = {"clock.sm_mhz": 0.01, "clock.throttled_pct": 10.0}  # relative, and in points


class Effect(StrEnum):
    FORBIDS = "forbids"  # nothing can be said about speed
    WARNS = "warns"  # it may explain a difference of speed
    NOTES = "notes"  # it is what was changed, perhaps
    FOLLOWS = "follows"  # the engine decided it by itself
    IDENTIFIES = "identifies"  # it identifies the run, and is never a difference
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

    A fact that only one side has is a difference unless the other side has no facts of its kind:
    what a plain trace does not state is no difference.

    Args:
        facts: side, run, name and value.
        accepted: names, or beginnings of names up to a dot, of differences that forbid nothing.
    """
    values: dict[str, dict[str, list[str]]] = {"base": {}, "new": {}}
    for side, _, name, value in facts:
        if _rule_of(name).effect is not Effect.IDENTIFIES:
            values[side].setdefault(name, []).append(value)
    base, new = values["base"], values["new"]
    kinds = {_kind(name) for name in base} & {_kind(name) for name in new} | {"ledger"}
    found = []
    for name in sorted(base.keys() | new.keys()):
        rule = _rule_of(name)
        if rule.effect is Effect.IGNORED or _kind(name) not in kinds:
            continue
        runs = [sorted(side.get(name, ())) for side in (base, new)]
        sides = [tuple(dict.fromkeys(own)) for own in runs]
        forbids = rule.effect is Effect.FORBIDS
        # The runs of a side are repeats only if they agree on what forbids a verdict.
        mixed = forbids and (_kind(name) == "ledger" or max(map(len, sides)) > 1)
        if mixed or not _alike(name, *runs):
            accepts = forbids and is_accepted(name, accepted)
            effect = Effect.NOTES if accepts else rule.effect
            found.append(Difference(name, rule.title, effect, rule.reason, *sides))
    order = list(Effect)
    return sorted(found, key=lambda one: (order.index(one.effect), one.title, one.name))


def _kind(name: str) -> str:
    return name.split(".")[0]


def is_accepted(name: str, accepted: Collection[str]) -> bool:
    """Whether one of these is the name of the fact, its beginning up to a dot, or all.

    Who accepts another parallelism accepts the ranks that it has.
    """
    names = (name, "parallel") if _kind(name) == "ranks" else (name,)
    prefixes = tuple(f"{one}." for one in accepted)
    return "all" in accepted or any(f"{one}.".startswith(prefixes) for one in names)


def _alike(name: str, base: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the runs of both sides have the same values; of a clock, the same median."""
    if name not in _SIMILAR or not base or not new:
        return set(base) == set(new)
    low, high = sorted(median(map(float, side)) for side in (base, new))
    return high - low <= _SIMILAR[name] * (high if name == "clock.sm_mhz" else 1)


def is_ignored(name: str) -> bool:
    """Whether a fact never counts as a difference: paths, identifiers, secrets."""
    return _rule_of(name).effect is Effect.IGNORED


def forbids(name: str) -> bool:
    """Whether runs that differ in a fact of their set-up cannot be compared."""
    return _rule_of(name).effect is Effect.FORBIDS and _kind(name) != "ledger"


def keeps_apart(name: str) -> bool:
    """Whether a history has a series for each value of a fact, even if values can be compared."""
    return _rule_of(name).keeps_apart


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    effect: Effect
    title: str
    reason: str
    keeps_apart: bool


@cache
def _rules() -> list[_Rule]:
    with (Path(__file__).parent / "setup.csv").open(encoding="utf-8", newline="") as file:
        return [
            _Rule(
                re.compile(row["pattern"]),
                Effect(row["effect"]),
                row["title"],
                row["reason"],
                row["in_history"] == "apart",
            )
            for row in DictReader(file)
        ]


def _rule_of(name: str) -> _Rule:
    return next(rule for rule in _rules() if rule.pattern.fullmatch(name))
