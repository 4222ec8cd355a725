"""Which ranks take part in an operation of one rank."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceql.collectives.layout import Layout
from traceql.dialect.pytorch.metadata import DistributedInfo, is_ranks

_EXPERT_ROLES = ("dispatch", "combine")
_DIRECTION = {"send": 1, "recv": -1}


@dataclass(frozen=True)
class Group:
    """Ranks that communicate; `size` counts those that were not loaded too."""

    ranks: tuple[int, ...]
    size: int
    is_directed: bool = False  # data goes from the first of the ranks to the second


@dataclass(frozen=True)
class DescribedOperation:
    """What an operation's own rank says of it; None for what it does not say."""

    rank: int
    op: str
    role: str | None
    group_name: str | None
    group_ranks: str | None
    group_size: int | None
    source: int | None
    destination: int | None


class ProcessGroups:
    """The process groups that files describe, in ranks of the run."""

    def __init__(self, files: Mapping[int, DistributedInfo]) -> None:
        """`files` has what the file of each rank says."""
        self._shift = {rank: info.shift for rank, info in files.items()}
        self._ranks = {
            (rank, group.name): group.ranks for rank, info in files.items() for group in info.groups
        }

    def of_event(self, rank: int, name: str | None, listed: str | None) -> Sequence[int]:
        """From the event's own list, else by the group's name; empty if neither tells."""
        try:
            local = json.loads(listed or "")
        except ValueError:  # no list, or a long one that the profiler shortened
            local = None
        if is_ranks(local):
            return [r + self._shift[rank] for r in local]
        return self._ranks.get((rank, name or ""), [])


def group_of(described: DescribedOperation, layout: Layout, process_groups: ProcessGroups) -> Group:
    """The ranks of an operation: what its event says, else the ranks that its role implies."""
    rank = described.rank
    members = process_groups.of_event(rank, described.group_name, described.group_ranks)
    if described.op in _DIRECTION:
        peer = _peer(described, members, layout)
        if peer is not None:
            pair = (rank, peer) if described.op == "send" else (peer, rank)
            return Group(pair, 2, is_directed=True)
    if members:
        return Group(tuple(members), described.group_size or len(members))
    if described.role in _EXPERT_ROLES:
        return Group(tuple(layout.ep_peers(rank)), layout.tp * layout.dp)
    return Group(tuple(layout.tp_peers(rank)), layout.tp)


def _peer(described: DescribedOperation, members: Sequence[int], layout: Layout) -> int | None:
    """The other end: as the event says, globally or within its group; else the next stage."""
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
