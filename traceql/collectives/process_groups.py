"""The process groups that a file's metadata lists."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from traceql.loading.ranks import distributed


@dataclass(frozen=True)
class ProcessGroup:
    """In the ranks of the run; `description` as the program named it, or empty."""

    name: str
    ranks: list[int]
    description: str


@dataclass(frozen=True)
class DistributedInfo:
    """What a file says of its job.

    Attributes:
        shift: what leads from the file's ranks to the run's: each data-parallel engine counts its
            ranks from 0.
        groups: those whose ranks the profiler wrote in full: it shortens long lists.
    """

    shift: int
    groups: list[ProcessGroup]


def distributed_info(rank: int, metadata: str | None) -> DistributedInfo:
    """From the metadata of one rank's file, as JSON; what is of another type says nothing."""
    info = distributed(json.loads(metadata or "{}"))
    own = info.get("rank")
    shift = rank - own if isinstance(own, int) else 0
    return DistributedInfo(shift, list(_groups(info.get("pg_config"), shift)))


def is_ranks(value: object) -> bool:
    """Whether this is a list of ranks, and not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(r, int) for r in value)


def _groups(listed: Any, shift: int) -> Iterator[ProcessGroup]:
    for group in listed if isinstance(listed, list) else []:
        if isinstance(group, dict) and is_ranks(group.get("ranks")):
            yield ProcessGroup(
                str(group.get("pg_name")),
                [r + shift for r in group["ranks"]],
                str(group.get("pg_desc") or ""),
            )
