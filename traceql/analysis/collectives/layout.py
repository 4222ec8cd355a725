"""The position of each rank in tensor, pipeline and data parallelism, and its communicators."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from traceql.readers.dialects.facts import FileFacts, ProcessGroup, is_ranks

_EXPERT_ROLES = ("dispatch", "combine")
_GATHERS = ("all_gather", "reduce_scatter")  # unlike an all_to_all, which sends to experts alone
_DIRECTION = {"send": 1, "recv": -1}


@dataclass(frozen=True)
class RankPosition:
    """A rank's place in each kind of parallelism, from 0."""

    tp: int
    pp: int
    dp: int


@dataclass(frozen=True)
class Sizes:
    """The size of each kind of parallelism, loaded or not; None if it is not stated."""

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None

    @classmethod
    def stated(cls, runs: Iterable[tuple[int | None, int | None, int | None]]) -> Self:
        """What run.json states: the sizes tp, pp and dp of each run directory.

        A size is unknown if those of several run directories differ.
        """
        of_kind = zip(*runs, strict=True)
        known = [{size for size in sizes if size and 0 < size < 2**31} for sizes in of_kind]
        return cls(*(sizes.pop() if len(sizes) == 1 else None for sizes in known))

    def all_of(self, world: int) -> RankPosition | None:
        """The sizes, if all are stated and they multiply to the world size."""
        if self.tp is None or self.pp is None or self.dp is None:
            return None
        return (
            RankPosition(self.tp, self.pp, self.dp)
            if self.tp * self.pp * self.dp == world
            else None
        )

    def allow(self, size: RankPosition) -> bool:
        return all(getattr(self, k) in (None, getattr(size, k)) for k in ("tp", "pp", "dp"))


@dataclass(frozen=True)
class Layout:
    """The place of each rank, and the size of each kind of parallelism.

    Ranks of one stage that communicate have the places of tensor-parallel ranks, even if they turn
    out to be replicas.

    Attributes:
        tp, pp, dp: the sizes, which include ranks that are not loaded; None if unknown.
        source: the evidence.
        shared: what the ranks of a stage share: the tensors of the model (tensor parallelism) or
            the work (data parallelism); None if that is unknown.
        stages_known: whether the pipeline stages are known.
        apart: whether replicas share nothing, not even experts.
    """

    places: Mapping[int, RankPosition]
    tp: int | None
    pp: int | None
    dp: int | None
    source: str
    shared: Literal["tensors", "work"] | None = "tensors"
    stages_known: bool = True
    apart: bool = False

    def tp_peers(self, rank: int) -> list[int]:
        """The loaded ranks of the same stage and replica, with this one."""
        own = self.places[rank]
        return [r for r, p in self.places.items() if (p.pp, p.dp) == (own.pp, own.dp)]

    def ep_peers(self, rank: int) -> list[int]:
        """The loaded ranks of the same stage, across replicas; they share the experts."""
        if self.apart:
            return self.tp_peers(rank)
        return [r for r, p in self.places.items() if p.pp == self.places[rank].pp]

    def dp_peers(self, rank: int) -> list[int]:
        """The loaded ranks with the same place in their replicas."""
        own = self.places[rank]
        return [r for r, p in self.places.items() if (p.tp, p.pp) == (own.tp, own.pp)]

    def stage_peer(self, rank: int, step: int) -> int | None:
        """The rank with the same place `step` pipeline stages later; None if it is not loaded."""
        own = self.places[rank]
        wanted = RankPosition(own.tp, own.pp + step, own.dp)
        return next((r for r, p in self.places.items() if p == wanted), None)


@dataclass(frozen=True)
class RankFacts:
    """The evidence for the place of a rank.

    Attributes:
        named: the place in the name of its file; None if the name has none.
        stage: the pipeline stage, from the layers that it runs; None if it is unknown.
        groups: the process groups that its file lists, with ranks of the run.
        stages: the number of pipeline stages, if the stage is known; None if the number is unknown.
        replica: the replica that it is a rank of, where several share nothing; None elsewhere.
        replicas: their number.
    """

    rank: int
    world_size: int | None
    named: RankPosition | None
    stage: int | None
    groups: Sequence[ProcessGroup]
    stages: int | None = None
    replica: int | None = None
    replicas: int = 1


@dataclass(frozen=True)
class Operations:
    """Evidence for the parallelism of a run in its operations.

    Attributes:
        reduce_layers: whether there are all-reduces inside layers, which mean tensor parallelism.
        reduce_gradients: whether gradients are averaged across replicas, which means data
            parallelism.
        tensor_ranks: how many ranks tensor-parallel operations say to have; None if unknown.
    """

    reduce_layers: bool
    reduce_gradients: bool
    tensor_ranks: int | None = None

    def allow(self, tp: int) -> bool:
        """Whether this number of tensor-parallel ranks is possible."""
        return tp == self.tensor_ranks if self.tensor_ranks else tp > 1 or not self.reduce_layers


@dataclass(frozen=True)
class Group:
    """The ranks of a communicator.

    Attributes:
        ranks: the ranks that are loaded or that the event names.
        size: the number of ranks, loaded or not; None if unknown.
        is_directed: whether data goes one way, from the first rank to the second.
    """

    ranks: tuple[int, ...]
    size: int | None
    is_directed: bool = False


@dataclass(frozen=True)
class DescribedOperation:
    """An operation in the trace of one rank; None for what the trace does not have.

    Attributes:
        is_reduced: whether an all-reduce follows the experts in the same layers.
    """

    rank: int
    op: str
    role: str | None
    group_name: str | None
    group_ranks: str | None
    group_size: int | None
    source: int | None
    destination: int | None
    is_reduced: bool


class ProcessGroups:
    """The process groups that trace files describe, with ranks as the run numbers them."""

    def __init__(
        self, files: Mapping[int, FileFacts], named: Collection[tuple[int, str | None]] = ()
    ) -> None:
        """From the facts about the job in the file of each rank.

        Args:
            named: each rank with the name of a group that its events have.
        """
        self._shift = {rank: facts.shift(rank) for rank, facts in files.items()}
        self._ranks = {
            (rank, group.name): group.ranks
            for rank, facts in files.items()
            for group in facts.groups_in_run(rank)
        }
        alike = [(r, name) for r, name in named if name and files[r].has_shared_group_names]
        self._loaded = {
            (rank, name): sorted({r for r, other in alike if other == name}) for rank, name in alike
        }
        self._is_complete = len(files) >= max(
            (f.world_size or 0 for f in files.values()), default=0
        )
        self._is_complete &= any(f.world_size for f in files.values())
        self._world = {rank: facts.world_size for rank, facts in files.items()}

    def loaded(self, rank: int, name: str | None, size: int | None) -> "Group | None":
        """The group of the loaded ranks whose events name it, if all ranks use the same name.

        Its size is unknown if the event does not have it and not all ranks of the job are loaded.
        A group as large as the job has all ranks of the job, also those that are not loaded.
        """
        members = self._loaded.get((rank, name or ""))
        if not members:
            return None
        if size is not None and size == self._world[rank]:
            return Group(tuple(r + self._shift[rank] for r in range(size)), size)
        return Group(tuple(members), size or (len(members) if self._is_complete else None))

    def of_event(self, rank: int, name: str | None, listed: str | None) -> Sequence[int]:
        """The ranks of an event's process group; empty if they are unknown.

        Args:
            rank: the rank of the event.
            name: the name of the process group in the event's arguments.
            listed: its ranks in the event's arguments, as JSON.
        """
        try:
            local = json.loads(listed or "")
        except ValueError:  # no list, or a long one that the profiler shortened
            local = None
        if is_ranks(local):
            return [r + self._shift[rank] for r in local]
        return self._ranks.get((rank, name or ""), [])


def group_of(described: DescribedOperation, layout: Layout, process_groups: ProcessGroups) -> Group:
    """The communicator of an operation: what its event states, else what its role implies."""
    rank = described.rank
    members = process_groups.of_event(rank, described.group_name, described.group_ranks)
    if described.op in _DIRECTION:
        peer = _peer(described, members, layout)
        if peer is not None:
            pair = (rank, peer) if described.op == "send" else (peer, rank)
            return Group(pair, 2, is_directed=True)
    if members:
        return Group(tuple(members), described.group_size or len(members))
    if loaded := process_groups.loaded(rank, described.group_name, described.group_size):
        return loaded
    if described.role in _EXPERT_ROLES:
        return _among_experts(described, layout)
    # A group is at least as large as its event states: not all ranks may be loaded.
    size = max(layout.tp or 0, described.group_size or 0)
    return Group(tuple(layout.tp_peers(rank)), size or None)


def _among_experts(described: DescribedOperation, layout: Layout) -> Group:
    """The ranks that exchange tokens for the experts.

    Where tokens are gathered and an all-reduce of the tensor-parallel ranks follows, they all had
    the same tokens, and each exchanges them with its counterparts in the other replicas. Elsewhere
    they share the tokens of a replica, and all ranks of the stage exchange them.
    """
    gathers = described.is_reduced and described.op in _GATHERS
    if (
        gathers
        and not layout.apart
        and layout.dp
        and layout.dp > 1
        and described.group_size in (None, layout.dp)
    ):
        return Group(tuple(layout.dp_peers(described.rank)), layout.dp)
    dp = 1 if layout.apart else layout.dp
    of_stage = layout.tp * dp if layout.tp and dp else described.group_size
    return Group(tuple(layout.ep_peers(described.rank)), of_stage)


def _peer(described: DescribedOperation, members: Sequence[int], layout: Layout) -> int | None:
    """The rank at the other end of a send or receive; None if it is unknown.

    It is the rank that the event names, as a rank of the run or as a place in the process group;
    else the other rank of a process group of two; else the rank of the neighbouring stage.
    """
    rank = described.rank
    number = described.destination if described.op == "send" else described.source
    others = [r for r in members if r != rank]
    if number is not None and number in others:
        return number
    if number is not None and number < len(members) and members[number] != rank:
        return members[number]
    if len(others) == 1:
        return others[0]
    return layout.stage_peer(rank, _DIRECTION[described.op])
