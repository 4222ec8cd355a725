"""The rows of the database about ranks, and new numbers for ranks that are in it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from traceql.database.loading.ranks import (
    DEVICES,
    FILE_NAME,
    NUMBER,
    ORDER,
    PROCESSES,
    Rank,
)
from traceql.database.loading.recordings import RANK_CHECK, Recording
from traceql.database.loading.run_files import write_graph_nodes

REPLICA_CHECK = "replica"

Check = tuple[int | None, str, int | None, int | None, None, str]  # a row of load_check


def rank_checks(rank: Rank, path: Path) -> Iterator[Check]:
    """The rows of load_check about the rank of a recording."""
    if rank.rank is None:
        note = f"{path.name} states no rank and used no GPU, unlike other files: it has no rank"
        yield None, "host process", None, None, None, note
        return
    yield rank.rank, RANK_CHECK, rank.rank, rank.world_size, None, f"rank from {rank.source}"
    if of := rank.replica:
        note = (
            "number of the replica; replicas, each of which counts its ranks from 0: "
            f"this is its rank {rank.rank % of.size} of {of.size}"
        )
        yield rank.rank, REPLICA_CHECK, of.number, of.replicas, None, note


_TABLES = (
    *("slice", "instant", "counter", "flow", "track", "file_count", "graph_node"),
    *("load_check", "trace"),
)  # with a column rank
_NEW_RANK = """
    UPDATE {table} SET rank = renumbered.new
    FROM renumbered
    WHERE {table}.rank = renumbered.old
"""
_NEW_PLACE = """
    UPDATE trace
    SET world_size = ?, tp_rank = ?, pp_rank = ?, dp_rank = ?, ep_rank = ?
    WHERE rank = ?
"""


def renumber(
    con: duckdb.DuckDBPyConnection, loaded: Sequence[Recording], found: Sequence[Rank]
) -> None:
    """Gives the recordings in the database the ranks that they have beside new ones."""
    before = [(one, rank) for one, rank in zip(loaded, found, strict=True) if one.rank is not None]
    changed = [(one, rank) for one, rank in before if one.rank != rank.rank]
    if changed:
        con.execute("CREATE TEMP TABLE renumbered (old BIGINT, new BIGINT)")
        con.executemany(
            "INSERT INTO renumbered VALUES (?, ?)", [[one.rank, new.rank] for one, new in changed]
        )
        for table in _TABLES:
            con.execute(_NEW_RANK.format(table=table))
        con.execute("DROP TABLE renumbered")
        con.execute("UPDATE trace SET world_size = NULL, device_name = NULL WHERE rank IS NULL")
    for one, rank in changed:
        if rank.rank is not None:
            write_graph_nodes(con, rank.rank, one.path, before=one.rank)
    con.execute(f"DELETE FROM load_check WHERE check_name IN ('{RANK_CHECK}', '{REPLICA_CHECK}')")
    for one, rank in before:
        for check in rank_checks(rank, one.path):
            con.execute("INSERT INTO load_check VALUES (?, ?, ?, ?, ?, ?)", check)
        places = rank.tp_rank, rank.pp_rank, rank.dp_rank, rank.ep_rank
        con.execute(_NEW_PLACE, [rank.world_size, *places, rank.rank])


_STATED = (FILE_NAME, NUMBER)
_ORDERED = (DEVICES, ORDER, PROCESSES)
_MOST_LISTED = 64


def rank_notes(recordings: Sequence[Recording], found: Sequence[Rank]) -> Iterator[str]:
    """A sentence for each way in which ranks were found, but for run.json and metadata."""
    known = sorted(
        (
            (rank.rank, rank, one.path)
            for one, rank in zip(recordings, found, strict=True)
            if rank.rank is not None
        ),
        key=lambda row: row[0],
    )
    if named := [number for number, rank, _ in known if rank.source in _STATED]:
        what = f"rank {named[0]} is" if len(named) == 1 else f"ranks {_ranges(named)} are"
        yield f"{what} from the file names"
    if len(known) > 1:
        for source in _ORDERED:
            if rows := [(number, path) for number, rank, path in known if rank.source == source]:
                yield (
                    f"no file states these ranks, they are in the {source}: {_listed(rows)}; "
                    "name the files rank0, rank1 ... if that is wrong"
                )
    if replicas := [(number, path) for number, rank, path in known if rank.replica]:
        count = max(rank.replica.replicas for _, rank, _ in known if rank.replica)
        yield f"{count} replicas, each of which counts its ranks from 0: {_listed(replicas)}"
    hosts = [
        one.path.name for one, rank in zip(recordings, found, strict=True) if rank.rank is None
    ]
    if hosts:
        yield f"host processes, which are not ranks: {', '.join(hosts)}"


def _listed(rows: Sequence[tuple[int, Path]]) -> str:
    """Each rank with its file, and the folder if several files have one name."""
    names = [path.name for _, path in rows]
    are_distinct = len(set(names)) == len(names)
    listed = [
        f"rank {rank} = {path.name if are_distinct else f'{path.parent.name}/{path.name}'}"
        for rank, path in rows[:_MOST_LISTED]
    ]
    more = [f"{len(rows) - _MOST_LISTED} more (table trace)"] if len(rows) > _MOST_LISTED else []
    return ", ".join([*listed, *more])


def _ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers as text, such as `0 to 3, 6`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join(" to ".join(map(str, part)) for part in parts)
