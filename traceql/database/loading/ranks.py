"""Finds the rank of each file: from run.json, the trace, the file name or the order of files."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from traceql.database.loading.run_directory import RunDirectory
from traceql.database.loading.run_document import RankEntry
from traceql.errors import RankConflict
from traceql.readers.dialects.facts import FileFacts

# A number of more digits is no rank, but perhaps a time.
_RANK_IN_NAME = re.compile(r"(?:^|[_\-.])rank[_\-]?([0-9]{1,9})(?=[^0-9]|$)", re.IGNORECASE)
_PARALLEL_IN_NAME = re.compile(r"(?:^|[_\-.])(tp|pp|dp|ep)([0-9]{1,9})(?=[_\-.])")


@dataclass(frozen=True)
class Rank:
    """The rank of a file in the job; its parallel ranks are None if they are unknown."""

    rank: int
    world_size: int
    source: (
        str  # run.json, a key of the file (distributedInfo), file name, order of files or processes
    )
    tp_rank: int | None = None
    pp_rank: int | None = None
    dp_rank: int | None = None
    ep_rank: int | None = None


def ranks(
    files: Sequence[tuple[Path, FileFacts]],
    runs: Mapping[Path, RunDirectory],
    taken: Mapping[int, str],
) -> list[Rank]:
    """The rank of each file.

    Args:
        files: the path of each trace, and what it says about itself.
        runs: the run directory of each trace that is in one.
        taken: the ranks that are already in the database, with the paths of their files.

    Raises:
        RankConflict: two files claim one rank.
    """
    owner = dict(taken)
    stated = [
        runs[path].rank_of(path, facts.process) if path in runs else None for path, facts in files
    ]
    recordings = Counter(path for path, _ in files)
    claims = [
        _claim(path, facts, entry, is_alone=recordings[path] == 1)
        for (path, facts), entry in zip(files, stated, strict=True)
    ]
    for (path, _), (claimed, _) in zip(files, claims, strict=True):
        if claimed is not None:
            _require_free(owner, claimed, path)
            owner[claimed] = str(path)
    found = []
    for (path, facts), entry, (claimed, source) in zip(files, stated, claims, strict=True):
        number = _next_free(owner) if claimed is None else claimed
        owner[number] = str(path)
        world_size = runs[path].world_size if entry else None
        size = (facts.world_size or 0) if world_size is None else world_size
        found.append(Rank(number, size, source, **_parallel_ranks(path, entry)))
    least = [facts.least_world_size for _, facts in files]
    size = max([r.world_size for r in found] + least + [len(owner)])
    return [r if r.world_size else _with_world_size(r, size) for r in found]


def _parallel_ranks(path: Path, entry: RankEntry | None) -> dict[str, int | None]:
    if entry:
        return {name: getattr(entry, name) for name in ("tp_rank", "pp_rank", "dp_rank", "ep_rank")}
    return {f"{kind}_rank": int(n) for kind, n in _PARALLEL_IN_NAME.findall(path.name)}


def _claim(
    path: Path, facts: FileFacts, entry: RankEntry | None, *, is_alone: bool
) -> tuple[int | None, str]:
    """The rank that a recording says it is, and by what; the name of a file tells one rank."""
    if entry:
        return entry.rank, "run.json"
    if facts.rank is not None:
        return facts.rank, facts.job_source
    if is_alone and (named := _RANK_IN_NAME.search(path.name)):
        return int(named[1]), "file name"
    return None, "order of files" if is_alone else "order of processes"


def _require_free(owner: Mapping[int, str], rank: int, path: Path) -> None:
    if rank in owner:
        raise RankConflict(
            f"rank {rank} is claimed by {owner[rank]} and by {path}; "
            "load different runs into different databases (-o)"
        )


def _next_free(owner: Mapping[int, str]) -> int:
    return next(n for n in range(len(owner) + 1) if n not in owner)


def _with_world_size(rank: Rank, size: int) -> Rank:
    return Rank(
        rank.rank, size, rank.source, rank.tp_rank, rank.pp_rank, rank.dp_rank, rank.ep_rank
    )
