"""Finds the rank of each file: from run.json, the trace, the file name or the order of files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from traceql.dialect.facts import FileFacts
from traceql.errors import RankConflict
from traceql.loading.run_directory import rank_in_run

_RANK_IN_NAME = re.compile(r"(?:^|[_\-.])rank[_\-]?(\d+)(?=\D|$)", re.IGNORECASE)
_PARALLEL_IN_NAME = re.compile(r"(?:^|[_\-.])(tp|pp|dp|ep)(\d+)(?=[_\-.])")


@dataclass(frozen=True)
class Rank:
    """The rank of a file in the job; its parallel ranks are None if they are unknown."""

    rank: int
    world_size: int
    source: str  # run.json, a key of the file (distributedInfo), file name or order of files
    tp_rank: int | None = None
    pp_rank: int | None = None
    dp_rank: int | None = None
    ep_rank: int | None = None


def ranks(
    files: Sequence[tuple[Path, FileFacts]], taken: Mapping[int, str] | None = None
) -> list[Rank]:
    """The rank of each file.

    Args:
        files: the path of each trace, and what it says about itself.
        taken: the ranks that are already in the database, with the paths of their files.

    Raises:
        RankConflict: two files claim one rank.
    """
    owner = dict(taken or {})
    claims = [_claim(path, facts) for path, facts in files]
    for (path, _), (claimed, _) in zip(files, claims, strict=True):
        if claimed is not None:
            _require_free(owner, claimed, path)
            owner[claimed] = str(path)
    found = []
    for (path, facts), (claimed, source) in zip(files, claims, strict=True):
        number = _next_free(owner) if claimed is None else claimed
        owner[number] = str(path)
        found.append(Rank(number, _world_size(path, facts), source, **_parallel_ranks(path)))
    size = max([r.world_size for r in found] + [len(owner)])
    return [r if r.world_size else _with_world_size(r, size) for r in found]


def _parallel_ranks(path: Path) -> dict[str, int | None]:
    if in_run := rank_in_run(path):
        return {name: in_run.get(name) for name in ("tp_rank", "pp_rank", "dp_rank", "ep_rank")}
    return {f"{kind}_rank": int(n) for kind, n in _PARALLEL_IN_NAME.findall(path.name)}


def _claim(path: Path, facts: FileFacts) -> tuple[int | None, str]:
    if in_run := rank_in_run(path):
        return int(in_run["rank"]), "run.json"
    if facts.rank is not None:
        return facts.rank, facts.job_source
    if named := _RANK_IN_NAME.search(path.name):
        return int(named[1]), "file name"
    return None, "order of files"


def _require_free(owner: Mapping[int, str], rank: int, path: Path) -> None:
    if rank in owner:
        raise RankConflict(
            f"rank {rank} is claimed by {owner[rank]} and by {path}; "
            "load different runs into different databases (-o)"
        )


def _next_free(owner: Mapping[int, str]) -> int:
    return next(n for n in range(len(owner) + 1) if n not in owner)


def _world_size(path: Path, facts: FileFacts) -> int:
    in_run = rank_in_run(path)
    if in_run and in_run["world_size"] is not None:
        return int(in_run["world_size"])
    return facts.world_size or 0


def _with_world_size(rank: Rank, size: int) -> Rank:
    return Rank(
        rank.rank, size, rank.source, rank.tp_rank, rank.pp_rank, rank.dp_rank, rank.ep_rank
    )
