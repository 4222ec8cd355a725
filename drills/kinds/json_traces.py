"""JSON traces, damaged in what they say, their structure, their text or their bytes."""

import copy
import json
from functools import partial
from random import Random

from drills import seeds
from drills.kind import Kind
from drills.mutants import Mutant, Recipe, mutant_kind, steps
from drills.mutate import events, octets, texts, tree
from drills.oracle.chrome import truth_of
from drills.oracle.database import disagreement

FILE = "rank0.json"
STAGES = {
    "event": events.MUTATORS,
    "structure": tree.MUTATORS,
    "text": texts.MUTATORS,
    "encoding": texts.ENCODINGS,
    "bytes": octets.MUTATORS,
}
WEIGHTS = (8, 2, 4, 1, 1)  # most damaged bytes only make JSON unreadable


def recipe(random: Random) -> Recipe:
    """The units are the metadata of a seed and its events."""
    trace = random.choice(seeds.traces())
    about = {key: value for key, value in trace.items() if key != "traceEvents"}
    return Recipe([about, *trace["traceEvents"]], steps(random, STAGES, weights=WEIGHTS))


def text_of(recipe: Recipe) -> bytes:
    """The file after all steps."""
    units = copy.deepcopy(list(recipe.units))
    about = units.pop(0) if units and "traceEvents" not in units[0] and "ph" not in units[0] else {}
    for step in recipe.steps:
        if step.stage == "event":
            units = events.MUTATORS[step.name](units, step.random)
    value = about | {"traceEvents": units}
    for step in recipe.steps:
        if step.stage == "structure":
            value = tree.MUTATORS[step.name](value, step.random)
    text = json.dumps(value, ensure_ascii=False)
    for step in recipe.steps:
        if step.stage == "text":
            text = texts.MUTATORS[step.name](text, step.random)
    content = text.encode(errors="surrogatepass")
    for step in recipe.steps:
        if step.stage in ("encoding", "bytes"):
            content = STAGES[step.stage][step.name](content, step.random)
    return content


def built(recipe: Recipe) -> Mutant:
    content = text_of(recipe)
    truth = truth_of(content)
    is_valid = {step.stage for step in recipe.steps} <= {"event"}
    return Mutant({FILE: content}, [FILE], partial(disagreement, truth=truth), is_valid)


KIND: Kind = mutant_kind("json", recipe, built)
