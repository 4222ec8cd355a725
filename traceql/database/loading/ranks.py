"""The rank of each recording, by the best evidence; what has none is a host process."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from traceql.database.loading.recordings import Recording
from traceql.database.loading.repeated_ranks import Replica, replicas, require_one_cycle
from traceql.errors import RankConflict
from traceql.readers.dialects.facts import FileFacts
from traceql.readers.file_names import (
    in_order,
    is_front_end,
    places_in_name,
    rank_in_name,
    ranks_by_number,
    ranks_by_place,
)


@dataclass(frozen=True)
class Start:
    """A recording, and its first event in the file's own time, ns; None if it is unknown."""

    path: str
    facts: FileFacts
    first_ts: int | None = None


def require_no_duplicates(found: Iterable[Start]) -> None:
    """Raises RankConflict if two files have the same process and GPU in different formats.

    Or in the same format, if they also begin at the same time.
    """
    seen: dict[str, list[Start]] = {}
    for one in found:
        before = seen.setdefault(one.facts.recorded, [])
        for other in before if one.facts.recorded else ():
            begins_together = one.first_ts is not None and one.first_ts == other.first_ts
            is_same = begins_together or one.facts.form != other.facts.form
            if one.path != other.path and is_same:
                raise RankConflict(
                    f"{one.facts.recorded} is both in {other.path} and in {one.path}, which seem "
                    "to be the same recording; load one of them, or different runs into different "
                    "databases (-o)"
                )
        before.append(one)


RUN_JSON = "run.json"
FILE_NAME = "file name"
NUMBER = "number in the file name"
DEVICES = "order of devices"
ORDER = "order of files"
PROCESSES = "order of processes"
KINDS = ("tp", "pp", "dp", "ep")


@dataclass(frozen=True)
class Rank:
    """The rank of a recording in the job, or a host process, which has none.

    Attributes:
        rank: the number; None for a host process.
        source: run.json, a key of the file, its name, or an order.
        tp_rank, pp_rank, dp_rank, ep_rank: None if unknown.
        replica: the replica that it is a rank of, where several count their ranks from 0.
    """

    rank: int | None
    world_size: int | None
    source: str
    tp_rank: int | None = None
    pp_rank: int | None = None
    dp_rank: int | None = None
    ep_rank: int | None = None
    replica: Replica | None = None


HOST_PROCESS = Rank(None, None, "no evidence of a rank")


@dataclass(frozen=True)
class Claim:
    """A rank that a recording states, and where.

    Attributes:
        replica: the replica that it is a rank of, where several count their ranks from 0.
        is_in_grid: whether several places in its name give the rank; what is not there is 0.
    """

    rank: int
    source: str
    replica: Replica | None = None
    is_in_grid: bool = False


def ranks(recordings: Sequence[Recording]) -> list[Rank]:
    """The rank of each recording; those in the database are numbered anew with the others.

    So the result does not depend on the order in which files are loaded.

    Raises:
        RankConflict: two recordings claim one rank.
    """
    several = {path for path, n in Counter(one.path for one in recordings).items() if n > 1}
    claims = _claims(recordings, several)
    are_hosts = _are_hosts(recordings, claims)
    claims = _with_replicas(recordings, claims, are_hosts)
    order, source = _in_order(
        [
            number
            for number, (claim, is_host) in enumerate(zip(claims, are_hosts, strict=True))
            if claim is None and not is_host
        ],
        recordings,
        several,
    )
    taken = {claim.rank for claim in claims if claim}
    free = (number for number in count() if number not in taken)
    for number, rank in zip(order, free, strict=False):
        is_alone = recordings[number].path not in several
        claims[number] = Claim(rank, source if is_alone else PROCESSES)
    sizes = _sizes_in_names(recordings)
    return _with_world_size(
        recordings,
        [
            HOST_PROCESS if claim is None else _rank(one, claim, sizes)
            for one, claim in zip(recordings, claims, strict=True)
        ],
    )


def _sizes_in_names(recordings: Sequence[Recording]) -> set[tuple[str, int]]:
    """Numbers above 0 that all names share, such as tp8: sizes, not ranks."""
    if len(recordings) == 1:
        return set()
    return set.intersection(
        *({(k, n) for k, n in places_in_name(one.path).items() if n} for one in recordings)
    )


def _claims(recordings: Sequence[Recording], several: Collection[Path]) -> list[Claim | None]:
    """The rank that each recording states.

    Args:
        several: the files with several recordings; their names state the rank of none.
    """
    claims = _without_helpers(
        recordings, [_stated(one, is_alone=one.path not in several) for one in recordings]
    )
    left = [
        one.path
        for one, claim in zip(recordings, claims, strict=True)
        if claim is None and one.path not in several and not is_front_end(one.path)
        # Beside stated ranks, a number counts only in the name of what used a GPU.
        if not any(claims) or one.events.use_gpu
    ]
    placed = ranks_by_place([path for path in left if places_in_name(path)])
    numbered = ranks_by_number([path for path in left if path not in placed])
    is_grid = any(rank != places_in_name(path).get("tp") for path, rank in placed.items())
    found = {path: Claim(rank, FILE_NAME, is_in_grid=is_grid) for path, rank in placed.items()}
    found |= {path: Claim(rank, NUMBER) for path, rank in numbered.items()}
    given = [claim.rank for claim in (*claims, *found.values()) if claim]
    if found and len(set(given)) < len(given):
        return claims
    return [claim or found.get(one.path) for one, claim in zip(recordings, claims, strict=True)]


def _without_helpers(
    recordings: Sequence[Recording], claims: Sequence[Claim | None]
) -> list[Claim | None]:
    """The claims but those of processes without a GPU whose rank belongs to one with a GPU.

    Data loaders and tokenizers carry the rank of their parent, or one beyond the world size.
    """
    on_gpu = [
        (claim.rank, one.facts.world_size or 0)
        for one, claim in zip(recordings, claims, strict=True)
        if claim and one.events.use_gpu
    ]
    taken = {rank for rank, _ in on_gpu}
    size = max((size for _, size in on_gpu), default=0)
    return [
        None
        if claim
        and claim.source != RUN_JSON
        and not one.events.use_gpu
        and (claim.rank in taken or 0 < size <= claim.rank)
        else claim
        for one, claim in zip(recordings, claims, strict=True)
    ]


def _stated(one: Recording, *, is_alone: bool) -> Claim | None:
    if one.entry:
        return Claim(one.entry.rank, RUN_JSON)
    if one.facts.rank is not None:
        return Claim(one.facts.rank, one.facts.job_source)
    named = rank_in_name(one.path) if is_alone else None
    return None if named is None else Claim(named, FILE_NAME)


def _are_hosts(recordings: Sequence[Recording], claims: Sequence[Claim | None]) -> list[bool]:
    """Whether each recording is a host process: others are ranks, and it shows nothing of one.

    Where nothing used a GPU, and none states a rank, all are ranks but the front end of an engine.
    """
    if len(recordings) == 1:
        return [False]
    has_ranks = any(claims) or any(one.events.use_gpu for one in recordings)
    if not has_ranks and all(is_front_end(one.path) for one in recordings):
        return [False for _ in recordings]
    return [
        claim is None
        and (
            (one.is_loaded and one.rank is None)
            or (not one.events.use_gpu if has_ranks else is_front_end(one.path))
        )
        for one, claim in zip(recordings, claims, strict=True)
    ]


def _with_replicas(
    recordings: Sequence[Recording],
    claims: Sequence[Claim | None],
    are_hosts: Sequence[bool],
) -> list[Claim | None]:
    """The claims with ranks that are unique in the run.

    Raises:
        RankConflict: two recordings claim one rank, or are cycles of one process.
    """
    stated: dict[int, list[int]] = defaultdict(list)
    for number, claim in enumerate(claims):
        if claim:
            stated[claim.rank].append(number)
    weak = [
        number
        for number, (claim, is_host) in enumerate(zip(claims, are_hosts, strict=True))
        if not is_host and (claim is None or claim.source == NUMBER)
    ]
    of_rank = {rank: [recordings[n] for n in same] for rank, same in stated.items()}
    strong: dict[int | None, Sequence[Recording]] = {}
    strong |= {rank: same for rank, same in of_rank.items() if stated[rank][0] not in weak}
    require_one_cycle(recordings, {**strong, None: [recordings[n] for n in weak]})
    found = list(claims)
    are_fixed = any(claim and claim.source == RUN_JSON for claim in claims)
    for rank, placed in replicas(of_rank, are_fixed=are_fixed).items():
        for one, replica in placed:
            number = next(n for n in stated[rank] if recordings[n] is one)
            claim = found[number]
            assert claim is not None
            found[number] = Claim(rank + replica.number * replica.size, claim.source, replica)
    return found


def _in_order(
    open_: Sequence[int], recordings: Sequence[Recording], several: Collection[Path]
) -> tuple[list[int], str]:
    """The recordings without a claim in the order of their ranks, and what orders them.

    That is the device, if each ran something on one device and no two on the same; else the name.
    """
    if len(open_) > 1 and all(recordings[n].path not in several for n in open_):
        devices = {n: [*recordings[n].events.devices] for n in open_}
        used = [device for own in devices.values() for device in own]
        if all(len(own) == 1 for own in devices.values()) and len(used) == len(set(used)):
            return sorted(open_, key=devices.__getitem__), DEVICES
    return sorted(open_, key=lambda n: in_order(recordings[n].path)), ORDER


def _rank(one: Recording, claim: Claim, sizes: Collection[tuple[str, int]]) -> Rank:
    if one.entry:
        entry = one.entry
        places = {f"{kind}_rank": getattr(entry, f"{kind}_rank") for kind in KINDS}
        size = one.world_size
    else:
        places = dict.fromkeys(("tp_rank", "pp_rank", "dp_rank"), 0) if claim.is_in_grid else {}
        named = Path(one.facts.label) if one.facts.label else one.path
        places |= {
            f"{kind}_rank": rank
            for kind, rank in places_in_name(named).items()
            if (kind, rank) not in sizes
        }
        size = None
    if of := claim.replica:
        size = of.replicas * of.size
        places |= {"dp_rank": of.number, **({"tp_rank": 0, "pp_rank": 0} if of.size == 1 else {})}
    size = one.facts.world_size if size is None else size
    return Rank(claim.rank, size, claim.source, **places, replica=claim.replica)


def _with_world_size(recordings: Sequence[Recording], found: Sequence[Rank]) -> list[Rank]:
    """Ranks whose world size is not stated have the least that is possible."""
    numbers = [one.rank for one in found if one.rank is not None]
    least = [one.facts.least_world_size for one in recordings]
    sizes = [one.world_size or 0 for one in found]
    size = max([*sizes, *least, len(numbers), *(number + 1 for number in numbers)])
    return [
        replace(one, world_size=one.world_size or size) if one.rank is not None else one
        for one in found
    ]
