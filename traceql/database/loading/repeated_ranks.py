"""Recordings that state the same rank: cycles of one process, replicas of a job, or a conflict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os.path import relpath
from pathlib import Path
from shlex import quote

from traceql.database.loading.recordings import Recording
from traceql.errors import RankConflict
from traceql.readers.file_names import in_order, places_in_name, process_in_name

# The parts of a run that are recorded together begin at most so far apart.
_TOGETHER_S = 10
_TWO_RUNS = "run.json states each rank once, so they are of different runs"

Process = tuple[str, int]  # the host, empty if it is unknown, and the process


def process_of(one: Recording) -> Process | None:
    """By the name of the file, else by the metadata or the events of the host."""
    if named := process_in_name(one.path):
        return named
    number = one.facts.process if one.facts.process is not None else one.events.process
    return None if number is None else ("", number)


def seconds_apart(one: Recording, other: Recording) -> float:
    """The time between two recordings; at most 0 if they overlap, or one has no events."""
    if one.span_ns is None or other.span_ns is None:
        return 0
    return max(other.span_ns[0] - one.span_ns[1], one.span_ns[0] - other.span_ns[1]) / 1e9


def require_one_cycle(
    recordings: Sequence[Recording], stated: Mapping[int | None, Sequence[Recording]]
) -> None:
    """Raises RankConflict if a process was recorded several times, one after the other.

    Args:
        stated: the recordings that state each rank, and those of ranks that state none.
    """
    for rank, same in stated.items():
        if not (again := _repeated(same, rank)):
            continue
        rank_of = {id(one): rank for rank, same in stated.items() for one in same}
        cycles = _cycles([(one, rank_of.get(id(one))) for one in recordings])
        commands = [
            f"traceql load {' '.join(quote(_short(one.path)) for one in cycle)} "
            f"-o cycle{number}.duckdb"
            for number, cycle in enumerate(cycles, start=1)
        ]
        raise RankConflict(
            f"{again} was recorded several times, one after the other (profiling cycles), and is "
            f"one rank, not several; load each cycle into a database of its own: "
            f"{'; '.join(commands)}"
        )


def _repeated(alike: Sequence[Recording], rank: int | None) -> str:
    """What was recorded again after a pause, as text; empty if nothing was."""
    timed = sorted((one for one in alike if one.span_ns), key=lambda one: one.span_ns or (0, 0))
    if all(seconds_apart(one, other) <= 0 for one, other in pairwise(timed)):
        return ""
    last: dict[_Identity, Recording] = {}
    for one in timed:
        key = _identity(one, rank)
        _, process = key
        before = last.get(key)
        last[key] = one
        if before is None or process is None or seconds_apart(before, one) <= 0:
            continue
        host, number = process
        if host or not _are_on_other_devices(before, one):
            return f"process {number}{host and f' of {host}'}" if rank is None else f"rank {rank}"
    return ""


_Identity = tuple[int | None, Process | None]


def _identity(one: Recording, rank: int | None) -> _Identity:
    """The rank that a recording states, and its process, or else its device."""
    process = process_of(one)
    if process is None and rank is not None and one.events.devices:
        process = "GPU", min(one.events.devices)
    return rank, process


def _are_on_other_devices(one: Recording, other: Recording) -> bool:
    devices = one.events.devices, other.events.devices
    return all(devices) and devices[0].isdisjoint(devices[1])


def _cycles(recordings: Sequence[tuple[Recording, int | None]]) -> list[list[Recording]]:
    """What was recorded together: what is there already begins the next cycle."""
    cycles: list[list[Recording]] = []
    seen: set[_Identity] = set()
    for one, rank in sorted(recordings, key=lambda pair: pair[0].span_ns or (0, 0)):
        key = _identity(one, rank)
        is_late = cycles and min(seconds_apart(one, other) for other in cycles[-1]) > _TOGETHER_S
        if not cycles or is_late or key in seen:
            cycles.append([])
            seen.clear()
        cycles[-1].append(one)
        if key[1]:
            seen.add(key)
    return [sorted(cycle, key=lambda one: in_order(one.path)) for cycle in cycles]


def _short(path: Path) -> str:
    """The path from the current folder, if that is shorter."""
    return min(relpath(path), str(path), key=len)


@dataclass(frozen=True)
class Replica:
    """The place of a recording among replicas that each count their ranks from 0."""

    number: int
    replicas: int
    size: int  # ranks of a replica


def replicas(
    stated: Mapping[int, Sequence[Recording]], *, are_fixed: bool
) -> dict[int, list[tuple[Recording, Replica]]]:
    """The replica of each recording, by the rank that it states; empty if no rank is repeated.

    Args:
        stated: the recordings that state each rank.
        are_fixed: whether a run.json numbers the ranks, so that there can be no replicas.

    Raises:
        RankConflict: recordings of one rank contradict each other.
    """
    for rank, same in stated.items():
        for one, other in pairwise(same):
            why = _TWO_RUNS if are_fixed else _contradiction(one, other)
            if why:
                raise _conflict(rank, one, other, why)
    repeated = {rank: same for rank, same in stated.items() if len(same) > 1}
    if not repeated:
        return {}
    known = {one.facts.world_size for same in stated.values() for one in same}
    sizes = {size for size in known if size} or {1 + max(stated)}
    named = {
        rank: [places_in_name(one.path).get("dp") for one in same] for rank, same in stated.items()
    }
    are_named = all(None not in dp and len({*dp}) == len(dp) for dp in named.values())
    counts = {len(same) for same in stated.values()}
    if len(sizes) > 1 or not (are_named or len(counts) == 1):
        rank, same = next(iter(repeated.items()))
        why = "other ranks are not repeated so often, so it is unknown which files belong together"
        raise _conflict(rank, same[0], same[1], why)
    size = sizes.pop()
    count = 1 + max(dp or 0 for own in named.values() for dp in own) if are_named else counts.pop()
    return {
        rank: [
            (one, Replica(dp if are_named and dp is not None else place, count, size))
            for place, (one, dp) in enumerate(
                sorted(zip(same, named[rank], strict=True), key=lambda pair: _place(pair[0], size))
            )
        ]
        for rank, same in stated.items()
    }


def _place(one: Recording, size: int) -> tuple[list[int], int, int]:
    """Sorts the replicas of a rank: by devices, and by process where several ranks must fit."""
    process = process_of(one) if size > 1 else None
    start = one.span_ns[0] if one.span_ns else 0
    return sorted(one.events.devices), process[1] if process else 0, start


def _contradiction(one: Recording, other: Recording) -> str:
    """Why two recordings of the same rank are not of two replicas; empty if they may be."""
    sizes = one.facts.world_size, other.facts.world_size
    if sizes[0] != sizes[1]:
        return f"jobs of {' and '.join(str(n or 'an unknown number of') for n in sizes)} ranks"
    are_other = _are_on_other_devices(one, other)
    process = process_of(one)
    if process == process_of(other) and not are_other:
        return "both are of one process, or of one device, at the same time"
    apart = seconds_apart(one, other)
    if apart > (_TOGETHER_S if are_other else 0):
        return f"they were recorded {apart:,.1f} s apart by different processes"
    least = min(len(one.events.kernels), len(other.events.kernels))
    if 4 * len(one.events.kernels & other.events.kernels) < least:
        return "they run different kernels, so different programs"
    return ""


def _conflict(rank: int, one: Recording, other: Recording, why: str) -> RankConflict:
    command = f"traceql load {quote(_short(other.path))} -o other.duckdb"
    return RankConflict(
        f"rank {rank} is claimed by {one.path} and by {other.path}: {why}; load different runs "
        f"into different databases ({command})"
    )
