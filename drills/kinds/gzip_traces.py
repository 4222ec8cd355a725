"""JSON traces packed with gzip, well or badly."""

from functools import partial
from random import Random

from drills.kind import Kind
from drills.kinds import json_traces
from drills.mutants import Mutant, Recipe, Step, mutant_kind
from drills.mutate import events, gzipped, texts
from drills.oracle.chrome import truth_of
from drills.oracle.database import disagreement
from drills.oracle.unpacked import unpacked

_FILE = "rank0.json.gz"
_INNER = {"event": events.MUTATORS, "encoding": texts.ENCODINGS}


def recipe(random: Random) -> Recipe:
    """One step of packing, and in half of the mutants another one before it."""
    units = json_traces.recipe(random).units
    stage = random.choice(("", "", "event", "encoding"))
    inner = (
        [Step(stage, random.choice(list(_INNER[stage])), random.getrandbits(32))] if stage else []
    )
    name = random.choice(list(gzipped.MUTATORS))
    return Recipe(units, [*inner, Step("packing", name, random.getrandbits(32))])


def built(recipe: Recipe) -> Mutant:
    text = json_traces.text_of(Recipe(recipe.units, [s for s in recipe.steps if s.stage in _INNER]))
    content = text
    for step in recipe.steps:
        if step.stage == "packing":
            content = gzipped.MUTATORS[step.name](content, step.random)
    inner = unpacked(content) if content.startswith(b"\x1f\x8b") else content
    truth = None if inner is None else truth_of(inner)
    return Mutant({_FILE: content}, [_FILE], partial(disagreement, truth=truth))


KIND: Kind = mutant_kind("gzip", recipe, built)
