"""Damaged traces: JSON, gzip and native Perfetto traces."""

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

from drills.binary_damage import BYTE_MUTATORS, GZIP_MUTATORS, PACKET_MUTATORS, packed
from drills.case import Kind
from drills.database_oracle import admitted_losses, disagreement, rows
from drills.json_damage import (
    CONVERSIONS,
    ENCODINGS,
    EVENT_MUTATORS,
    TEXT_MUTATORS,
    TREE_MUTATORS,
)
from drills.mutants import Mutant, Recipe, Step, after_steps, mutant_kind, steps
from drills.seeds import OLD_RANK, Event, seed_traces
from drills.trace_oracle import Slices, slices_of, truth_of, unpacked

FILE = "rank0.json"
STAGES = {
    "event": EVENT_MUTATORS,
    "structure": TREE_MUTATORS,
    "text": TEXT_MUTATORS,
    "encoding": ENCODINGS,
    "bytes": BYTE_MUTATORS,
}
WEIGHTS = (8, 2, 4, 1, 1)  # most damaged bytes only make JSON unreadable


def json_recipe(random: Random) -> Recipe:
    """The units are the metadata of a seed and its events."""
    trace = random.choice(seed_traces())
    about = {key: value for key, value in trace.items() if key != "traceEvents"}
    return Recipe([about, *trace["traceEvents"]], steps(random, STAGES, weights=WEIGHTS))


def content_of(recipe: Recipe, stages: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The file after all steps."""
    units = copy.deepcopy(list(recipe.units))
    about = units.pop(0) if units and "traceEvents" not in units[0] and "ph" not in units[0] else {}
    before = {"structure": lambda events: about | {"traceEvents": events}, **CONVERSIONS}
    content: bytes = after_steps(units, recipe.steps, stages, before)
    return content


def json_mutant(recipe: Recipe) -> Mutant:
    content = content_of(recipe, STAGES)
    truth = truth_of(content)
    is_valid = {step.stage for step in recipe.steps} <= {"event"}
    return Mutant({FILE: content}, [FILE], partial(disagreement, truth=truth), is_valid)


JSON: Kind = mutant_kind("json", json_recipe, json_mutant)


_GZIP_FILE = "rank0.json.gz"
_GZIP_STAGES: Mapping[str, Mapping[str, Any]] = STAGES | {"packing": GZIP_MUTATORS}


def gzip_recipe(random: Random) -> Recipe:
    """One step of packing, and in half of the mutants another one before it."""
    units = json_recipe(random).units
    stages = random.choice(([], [], ["event"], ["encoding"]))
    steps = [
        Step(stage, random.choice(list(_GZIP_STAGES[stage])), random.getrandbits(32))
        for stage in (*stages, "packing")
    ]
    return Recipe(units, steps)


def gzip_mutant(recipe: Recipe) -> Mutant:
    content = content_of(recipe, _GZIP_STAGES)
    inner = unpacked(content) if content.startswith(b"\x1f\x8b") else content
    truth = None if inner is None else truth_of(inner)
    return Mutant({_GZIP_FILE: content}, [_GZIP_FILE], partial(disagreement, truth=truth))


GZIP: Kind = mutant_kind("gzip", gzip_recipe, gzip_mutant)


_NATIVE_FILE = "rank0.pftrace"
_STAGES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "packet": PACKET_MUTATORS, "bytes": BYTE_MUTATORS
}  # fmt: skip
_EVENTS = f"""
    SELECT COALESCE(slice.name, ''), CAST(slice.ts AS HUGEINT) - trace.file_offset_ns, slice.dur
    FROM slice
    INNER JOIN trace USING (rank)
    WHERE slice.rank <> {OLD_RANK}
"""


@cache
def _seeds() -> list[list[bytes]]:
    return [_packets(trace["traceEvents"]) for trace in seed_traces()]


def _packets(events: list[Event]) -> list[bytes]:
    """A track per thread; of its events, those that do not overlap."""
    uuids: dict[tuple[object, object], int] = {}
    free_from: dict[int, int] = {}
    found: list[TracePacket] = []
    for event in events:
        if event["ph"] != "X":
            continue
        place = event["pid"], event["tid"]
        if place not in uuids:
            uuids[place] = len(uuids) + 1
            track = {"uuid": uuids[place], "name": str(place)}
            found.append(TracePacket(trusted_packet_sequence_id=1, track_descriptor=track))
        uuid, first = uuids[place], round(event["ts"] * 1000)
        last = first + round(event["dur"] * 1000)
        if first >= free_from.get(uuid, 0):
            free_from[uuid] = last + 1
            found += [_event(uuid, first, event), _event(uuid, last, None)]
    return [packet.SerializeToString() for packet in found]


def _event(uuid: int, ts: int, event: Event | None) -> TracePacket:
    """The beginning of an event, or an end."""
    packet = TracePacket(trusted_packet_sequence_id=1, timestamp=ts)
    kind = TrackEvent.TYPE_SLICE_END if event is None else TrackEvent.TYPE_SLICE_BEGIN
    packet.track_event.type = kind
    packet.track_event.track_uuid = uuid
    if event:
        packet.track_event.name = event["name"]
        packet.track_event.categories.append(event["cat"])
        argument = packet.track_event.debug_annotations.add()
        argument.name, argument.int_value = "External id", event["args"].get("External id", 0)
    return packet


def native_recipe(random: Random) -> Recipe:
    """The units are packets."""
    return Recipe(random.choice(_seeds()), steps(random, _STAGES, weights=(5, 1)))


def native_mutant(recipe: Recipe) -> Mutant:
    packets = [TracePacket.FromString(unit) for unit in recipe.units]
    before = {"bytes": lambda packets: Trace(packet=packets).SerializeToString()}
    content: bytes = after_steps(packets, recipe.steps, _STAGES, before)
    truth = slices_of(content)
    file = _NATIVE_FILE
    if recipe.steps and recipe.steps[0].seed % 5 == 0:
        file, content = f"{_NATIVE_FILE}.gz", packed(content)
    return Mutant({file: content}, [file], partial(_native_disagreement, truth))


def _native_disagreement(truth: Slices | None, database: Path) -> str | None:
    admitted = admitted_losses(database)
    if truth is None:
        wrong = "it loaded what does not consist of whole packets, under a green ledger"
        return None if admitted else wrong
    found = rows(database, _EVENTS)
    if admitted:
        if len(found) > truth.began and truth.is_certain:
            return f"{len(found)} slices for {truth.began} beginnings and instants"
        return None
    if len(found) < truth.began:
        return f"{len(found)} slices for {truth.began} beginnings and instants"
    missing = truth.certain - Counter(found)
    if missing:
        return f"{missing.total()} slices are missing, such as {next(iter(missing))!r:.300}"
    return None


NATIVE: Kind = mutant_kind("native", native_recipe, native_mutant)
