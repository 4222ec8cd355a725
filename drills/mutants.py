"""Kinds of drills that load a damaged input: seeds, steps of damage, and minimization."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from drills.case import LOSS_TOLD, Case, Kind, Outcome, Verdict
from drills.database_oracle import admitted_losses
from drills.judging import judged, state
from drills.process import executed, forked
from drills.seeds import old_database

Item = TypeVar("Item")


def smallest(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> Sequence[Item]:
    """A part of `items`, in order, that fails and from which no single item can be left out.

    `fails(items)` is taken for granted. If `fails` gives up and always returns False, what was
    found so far is returned.
    """
    parts = 2
    while items:
        size = max(1, -(-len(items) // parts))
        starts = range(0, len(items), size)
        without = ([*items[:start], *items[start + size :]] for start in starts)
        if (found := next((rest for rest in without if fails(rest)), None)) is not None:
            items, parts = found, max(2, parts - 1)
        elif size == 1:
            return items
        else:
            parts = min(len(items), 2 * parts)
    return items


DATABASE = "run.duckdb"
_PROCESS_EVERY = 20  # one mutant in this many is loaded by true processes
_OLD_EVERY = 7  # one mutant in this many is added to a database
_MOST_ATTEMPTS = 40  # to make a failing mutant smaller


@dataclass(frozen=True)
class Step:
    """One damage: a mutator by name, and the seed of its random numbers."""

    stage: str
    name: str
    seed: int

    @property
    def random(self) -> Random:
        return Random(self.seed)


@dataclass(frozen=True)
class Mutant:
    """A damaged input.

    Attributes:
        files: their content by path.
        arguments: the paths and options of `traceql load`.
        disagreement: what in a database does not agree with the files; None if nothing.
        is_valid: a load has to succeed.
    """

    files: Mapping[str, bytes]
    arguments: Sequence[str]
    disagreement: Callable[[Path], str | None]
    is_valid: bool = False


@dataclass(frozen=True)
class Recipe:
    """What a mutant is made of: the units (such as events) of its seed, and steps of damage."""

    units: Sequence[Any]
    steps: Sequence[Step]


def mutant_kind(
    name: str, recipe: Callable[[Random], Recipe], built: Callable[[Recipe], Mutant]
) -> Kind:
    return Kind(
        name,
        count=lambda mutants, _kills: mutants,
        run=lambda case, folder: attempt(built(recipe(case.random)), case, folder),
        prepare=old_database,
        smaller=partial(_smaller, recipe, built),
    )


def steps(
    random: Random,
    mutators: Mapping[str, Mapping[str, Any]],
    *,
    weights: Sequence[int] | None = None,
) -> list[Step]:
    """One to four steps, in the order of the stages in `mutators`.

    Args:
        weights: how often each stage is chosen; by default all equally often.
    """
    number = random.choice((1, 1, 2, 2, 3, 4))
    stages = random.choices(list(mutators), weights, k=number)
    chosen = [
        Step(stage, random.choice(list(mutators[stage])), random.getrandbits(32))
        for stage in stages
    ]
    return sorted(chosen, key=lambda step: list(mutators).index(step.stage))


def after_steps(
    value: Any,
    steps: Sequence[Step],
    mutators: Mapping[str, Mapping[str, Callable[[Any, Random], Any]]],
    before: Mapping[str, Callable[[Any], Any]],
) -> Any:
    """A value after all steps, stage by stage; `before` converts it at the begin of a stage."""
    for stage, functions in mutators.items():
        value = before[stage](value) if stage in before else value
        for step in steps:
            if step.stage == stage:
                value = functions[step.name](value, step.random)
    return value


def attempt(mutant: Mutant, case: Case, folder: Path) -> Outcome:
    """Loads a mutant in a new folder below `folder`."""
    place = folder / "work"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in mutant.files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    if case.number % _OLD_EVERY == 0:
        shutil.copyfile(old_database(), place / DATABASE)
    before = state(place)
    run = executed if case.number % _PROCESS_EVERY == 0 else forked
    ended = run(["load", *mutant.arguments, "-o", DATABASE], place)
    outcome = judged(
        ended,
        place,
        before,
        written=[DATABASE],
        disagreement=lambda: mutant.disagreement(place / DATABASE),
        must_succeed=mutant.is_valid,
    )
    if outcome.verdict == Verdict.RIGHT and admitted_losses(place / DATABASE):
        return replace(outcome, reason=LOSS_TOLD)
    return outcome


def _smaller(
    recipe: Callable[[Random], Recipe],
    built: Callable[[Recipe], Mutant],
    case: Case,
    outcome: Outcome,
    target: Path,
) -> Sequence[str]:
    """Leaves out steps, then units of the seed, while the verdict stays the same."""
    scratch = target / "scratch"
    scratch.mkdir(parents=True)
    attempts_left = _MOST_ATTEMPTS

    def fails(smaller: Recipe) -> bool:
        nonlocal attempts_left
        attempts_left -= 1
        if attempts_left < 0:
            return False
        return attempt(built(smaller), case, scratch).verdict == outcome.verdict

    whole = recipe(case.random)
    if not fails(whole):
        shutil.rmtree(scratch)
        return ["it did not fail again"]
    fewer_steps = smallest(whole.steps, lambda steps: fails(Recipe(whole.units, steps)))
    fewer_units = smallest(whole.units, lambda units: fails(Recipe(units, fewer_steps)))
    left = Recipe(fewer_units, fewer_steps)
    shutil.rmtree(scratch)
    mutant = built(left)
    for name, content in mutant.files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    return [
        f"{len(left.units)} of {len(whole.units)} units of the seed, after:",
        *(f"  {step.stage}: {step.name} (seed {step.seed})" for step in left.steps),
    ]
