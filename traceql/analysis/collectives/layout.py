"""The place of each rank in tensor, pipeline and data parallelism, and the evidence for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from traceql.readers.dialects.facts import ProcessGroup


@dataclass(frozen=True)
class RankPlace:
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

    def all_of(self, world: int) -> RankPlace | None:
        """The sizes, if all are stated and they multiply to the world size."""
        if self.tp is None or self.pp is None or self.dp is None:
            return None
        return (
            RankPlace(self.tp, self.pp, self.dp) if self.tp * self.pp * self.dp == world else None
        )

    def allow(self, size: RankPlace) -> bool:
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
    """

    places: Mapping[int, RankPlace]
    tp: int | None
    pp: int | None
    dp: int | None
    source: str
    shared: Literal["tensors", "work"] | None = "tensors"
    stages_known: bool = True

    def tp_peers(self, rank: int) -> list[int]:
        """The loaded ranks of the same stage and replica, with this one."""
        own = self.places[rank]
        return [r for r, p in self.places.items() if (p.pp, p.dp) == (own.pp, own.dp)]

    def ep_peers(self, rank: int) -> list[int]:
        """The loaded ranks of the same stage, across replicas; they share the experts."""
        return [r for r, p in self.places.items() if p.pp == self.places[rank].pp]

    def dp_peers(self, rank: int) -> list[int]:
        """The loaded ranks with the same place in their replicas."""
        own = self.places[rank]
        return [r for r, p in self.places.items() if (p.tp, p.pp) == (own.tp, own.pp)]

    def stage_peer(self, rank: int, step: int) -> int | None:
        """The rank with the same place `step` pipeline stages later; None if it is not loaded."""
        own = self.places[rank]
        wanted = RankPlace(own.tp, own.pp + step, own.dp)
        return next((r for r, p in self.places.items() if p == wanted), None)


@dataclass(frozen=True)
class RankFacts:
    """The evidence for the place of a rank.

    Attributes:
        named: the place in the name of its file; None if the name has none.
        stage: the pipeline stage, from the layers that it runs; None if it is unknown.
        groups: the process groups that its file lists, with ranks of the run.
        stages: the number of pipeline stages, if the stage is known; None if the number is unknown.
    """

    rank: int
    world_size: int | None
    named: RankPlace | None
    stage: int | None
    groups: Sequence[ProcessGroup]
    stages: int | None = None


@dataclass(frozen=True)
class Operations:
    """What the operations of a run tell of its parallelism.

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
        """Whether there may be so many tensor-parallel ranks."""
        return tp == self.tensor_ranks if self.tensor_ranks else tp > 1 or not self.reduce_layers
