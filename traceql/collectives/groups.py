"""Which ranks take part in each operation of one rank."""

import json
from dataclasses import dataclass

import duckdb

from traceql.collectives.layout import Layout
from traceql.collectives.process_groups import distributed_info, is_ranks

_EXPERT_ROLES = ("dispatch", "combine")
_DIRECTION = {"send": 1, "recv": -1}


@dataclass(frozen=True)
class Group:
    """Ranks that communicate; `size` counts those that were not loaded too."""

    ranks: tuple[int, ...]
    size: int
    directed: bool = False  # from the first of the ranks to the second

    @property
    def label(self) -> str:
        return (" to " if self.directed else " ").join(map(str, self.ranks))


@dataclass(frozen=True)
class _Described:
    """What an operation's own rank says of it; None where it does not."""

    rank: int
    op: str
    role: str | None
    group_name: str | None
    group_ranks: str | None
    group_size: int | None
    source: int | None
    destination: int | None


class _ProcessGroups:
    """Process groups that the files describe, in global ranks."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._shift: dict[int, int] = {}
        self._ranks: dict[tuple[int, str], list[int]] = {}
        for rank, metadata in con.execute("SELECT rank, metadata FROM trace").fetchall():
            info = distributed_info(rank, metadata)
            self._shift[rank] = info.shift
            self._ranks |= {(rank, group.name): group.ranks for group in info.groups}

    def of_event(self, rank: int, name: str | None, listed: str | None) -> list[int]:
        """From the event's own list, else by the group's name; empty where neither tells."""
        try:
            local = json.loads(listed or "")
        except ValueError:  # none, or a long one that the profiler shortened
            local = None
        if is_ranks(local):
            return [r + self._shift[rank] for r in local]
        return self._ranks.get((rank, name or ""), [])


def operation_groups(
    con: duckdb.DuckDBPyConnection, layout: Layout
) -> tuple[list[Group], dict[int, int]]:
    """Groups of table `operation`, and the number of the group of each described_id."""
    rows = con.execute("""
        SELECT DISTINCT
            described_id, rank, op, role, group_name, group_ranks, group_size, source, destination
        FROM operation
        ORDER BY described_id
    """).fetchall()
    process_groups = _ProcessGroups(con)
    numbers: dict[Group, int] = {}
    of_described = {
        described_id: numbers.setdefault(
            _group(_Described(*described), layout, process_groups), len(numbers)
        )
        for described_id, *described in rows
    }
    return list(numbers), of_described


def _group(described: _Described, layout: Layout, process_groups: _ProcessGroups) -> Group:
    rank = described.rank
    members = process_groups.of_event(rank, described.group_name, described.group_ranks)
    if described.op in _DIRECTION:
        peer = _peer(described, members, layout)
        if peer is not None:
            pair = (rank, peer) if described.op == "send" else (peer, rank)
            return Group(pair, 2, directed=True)
    if members:
        return Group(tuple(members), described.group_size or len(members))
    if described.role in _EXPERT_ROLES:
        return Group(tuple(layout.ep_peers(rank)), layout.tp * layout.dp)
    return Group(tuple(layout.tp_peers(rank)), layout.tp)


def _peer(described: _Described, members: list[int], layout: Layout) -> int | None:
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
