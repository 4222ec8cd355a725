"""The tracks of a run: one group per rank, with the tracks of its GPU, then of its host.

Above them is a group for what is about all ranks, if there is something. If there are two runs,
the groups of a rank are beside each other, those of the first run above those of the second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceql.present.pftrace.shown_run import ShownRun
from traceql.present.pftrace.track_tree import TOP, TrackTree

_ALL_RANKS = -1  # stands for a rank in what is about all of them
_OF_ALL_RANKS = "all ranks"  # sorts before "rank 0": the UI goes by names at the top


@dataclass(frozen=True)
class Spot:
    """The position of a track: its rank (-1: above all), its group there, its place in it."""

    rank: int
    group: str | None
    place: tuple[int, ...]


@dataclass(frozen=True)
class _Group:
    """A group that is not in another one: its name, and its place among all of them."""

    name: str
    place: int


class RankGroups:
    """Adds the tracks of one run to the tree."""

    def __init__(self, tree: TrackTree, groups: Mapping[int, _Group]) -> None:
        self._tree = tree
        self._of_all_ranks = groups[_ALL_RANKS]
        self._parents: dict[tuple[int, str | None], int] = {
            (rank, None): tree.add(group.name, TOP, group.place)
            for rank, group in sorted(groups.items())
            if rank != _ALL_RANKS
        }

    def add(self, name: str, spot: Spot, unit: str | None = None) -> int:
        """Adds a track and returns its number; see TrackTree."""
        return self._tree.add(name, self._parent(spot), _flat(spot.place), unit)

    def _parent(self, spot: Spot) -> int:
        if spot.rank == _ALL_RANKS and (_ALL_RANKS, None) not in self._parents:
            above = self._of_all_ranks
            self._parents[_ALL_RANKS, None] = self._tree.add(above.name, TOP, above.place)
        key = spot.rank, spot.group
        if key not in self._parents:
            rank = self._parents[spot.rank, None]
            self._parents[key] = self._tree.add(str(spot.group), rank, _flat(spot.place[:1]))
        return self._parents[key]


def rank_groups(tree: TrackTree, runs: Sequence[ShownRun]) -> list[RankGroups]:
    """The groups of each run."""
    names = [{_ALL_RANKS: _named(_OF_ALL_RANKS, run), **run.rank_names()} for run in runs]
    in_order = sorted((rank, number) for number, ranks in enumerate(names) for rank in ranks)
    places = {key: place for place, key in enumerate(in_order)}
    return [
        RankGroups(tree, {r: _Group(name, places[r, number]) for r, name in ranks.items()})
        for number, ranks in enumerate(names)
    ]


def _named(what: str, run: ShownRun) -> str:
    return what if run.label is None else f"{what} · {run.label}"


def _flat(place: tuple[int, ...]) -> int:
    """The place as one number that has the same order."""
    first, second = (*place, 0)[:2]
    return first << 16 | min(second, (1 << 16) - 1)
