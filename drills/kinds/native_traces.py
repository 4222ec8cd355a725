"""Native Perfetto traces, damaged in their packets or their bytes."""

from collections import Counter
from functools import cache, partial
from pathlib import Path
from random import Random

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

from drills import seeds
from drills.kind import Kind
from drills.mutants import Mutant, Recipe, mutant_kind, steps
from drills.mutate import gzipped, octets, packets
from drills.old_database import RANK as OLD_RANK
from drills.oracle.database import admitted_losses, rows
from drills.oracle.packets import Slices, slices_of

_FILE = "rank0.pftrace"
_STAGES = {"packet": packets.MUTATORS, "bytes": octets.MUTATORS}
_EVENTS = f"""
    SELECT COALESCE(slice.name, ''), CAST(slice.ts AS HUGEINT) - trace.file_offset_ns, slice.dur
    FROM slice
    INNER JOIN trace USING (rank)
    WHERE slice.rank <> {OLD_RANK}
"""


@cache
def _seeds() -> list[list[bytes]]:
    return [_packets(trace["traceEvents"]) for trace in seeds.traces()]


def _packets(events: list[seeds.Event]) -> list[bytes]:
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
            found.append(_described(uuids[place], str(place)))
        uuid, first = uuids[place], round(event["ts"] * 1000)
        last = first + round(event["dur"] * 1000)
        if first >= free_from.get(uuid, 0):
            free_from[uuid] = last + 1
            found += [_event(uuid, first, event), _event(uuid, last, None)]
    return [packet.SerializeToString() for packet in found]


def _described(uuid: int, name: str) -> TracePacket:
    packet = TracePacket(trusted_packet_sequence_id=1)
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.name = name
    return packet


def _event(uuid: int, ts: int, event: seeds.Event | None) -> TracePacket:
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


def recipe(random: Random) -> Recipe:
    """The units are packets."""
    return Recipe(random.choice(_seeds()), steps(random, _STAGES, weights=(5, 1)))


def built(recipe: Recipe) -> Mutant:
    decoded = [TracePacket.FromString(unit) for unit in recipe.units]
    for step in recipe.steps:
        if step.stage == "packet":
            decoded = packets.MUTATORS[step.name](decoded, step.random)
    content = Trace(packet=decoded).SerializeToString()
    for step in recipe.steps:
        if step.stage == "bytes":
            content = octets.MUTATORS[step.name](content, step.random)
    truth = slices_of(content)
    file = _FILE
    if recipe.steps[0].seed % 5 == 0 if recipe.steps else False:
        file, content = f"{_FILE}.gz", gzipped.packed(content)
    return Mutant({file: content}, [file], partial(_disagreement, truth))


def _disagreement(truth: Slices | None, database: Path) -> str | None:
    told = admitted_losses(database)
    if truth is None:
        wrong = "it loaded what does not consist of whole packets, under a green ledger"
        return None if told else wrong
    found = rows(database, _EVENTS)
    if told:
        if len(found) > truth.began and truth.is_certain:
            return f"{len(found)} slices for {truth.began} beginnings and instants"
        return None
    if len(found) < truth.began:
        return f"{len(found)} slices for {truth.began} beginnings and instants"
    missing = truth.certain - Counter(found)
    if missing:
        return f"{missing.total()} slices are missing, such as {next(iter(missing))!r:.300}"
    return None


KIND: Kind = mutant_kind("native", recipe, built)
