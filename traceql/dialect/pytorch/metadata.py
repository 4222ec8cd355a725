"""Reads the metadata of a trace file: its job, its clock and its devices."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from traceql.dialect.pytorch.vocabulary import Metadata

TraceMetadata = Mapping[str, Any]  # the top-level keys of a file but its events


@dataclass(frozen=True)
class ProcessGroup:
    """A process group, with ranks as the run numbers them.

    Attributes:
        description: the description that the program gave the group; empty if it gave none.
    """

    name: str
    ranks: list[int]
    description: str


@dataclass(frozen=True)
class DistributedInfo:
    """What a file says about its job, under the key distributedInfo.

    Attributes:
        rank: the rank of the file in its own job; None if the file does not say.
        world_size: the number of ranks in that job; None if the file does not say.
        shift: the rank in the run minus the rank in the file. They differ because each
            data-parallel engine counts its ranks from 0.
        groups: the process groups whose ranks the profiler wrote in full; it shortens long lists.
    """

    rank: int | None
    world_size: int | None
    shift: int
    groups: list[ProcessGroup]


def distributed_info(metadata: TraceMetadata, rank: int | None = None) -> DistributedInfo:
    """From the metadata of a file; values of another type than expected say nothing.

    Args:
        metadata: the top-level keys of the file.
        rank: the rank of the file in the run, if it is known.
    """
    given = metadata.get(Metadata.DISTRIBUTED_INFO)
    info = given if isinstance(given, dict) else {}
    own, size = _integer(info.get(Metadata.RANK)), _integer(info.get(Metadata.WORLD_SIZE))
    shift = rank - own if rank is not None and own is not None else 0
    return DistributedInfo(
        own, size, shift, list(_groups(info.get(Metadata.PROCESS_GROUPS), shift))
    )


def base_time_ns(metadata: TraceMetadata) -> int | None:
    """What a file's times count from, if it says so with an integer, or with one as text."""
    given = metadata.get(Metadata.BASE_TIME)
    text = given if isinstance(given, str) else str(given)
    return int(text[:30]) if re.fullmatch(r"-?\d+", text) else None


def device_name(metadata: TraceMetadata, device: int) -> str | None:
    """The name of a device, by its number on its host."""
    listed = metadata.get(Metadata.DEVICE_PROPERTIES)
    for properties in listed if isinstance(listed, list) else []:
        if (
            isinstance(properties, dict)
            and _number(properties.get(Metadata.DEVICE_NUMBER)) == device
        ):
            name = properties.get(Metadata.DEVICE_NAME)
            return name if name is None else str(name)
    return None


def is_ranks(value: object) -> bool:
    """Whether this is a list of ranks that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(r, int) for r in value)


def loaded_metadata(text: str | None) -> TraceMetadata:
    """Metadata as the database holds it."""
    metadata: TraceMetadata = json.loads(text or "{}")
    return metadata


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _number(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None


def _groups(listed: Any, shift: int) -> Iterator[ProcessGroup]:
    for group in listed if isinstance(listed, list) else []:
        if isinstance(group, dict) and is_ranks(group.get(Metadata.GROUP_RANKS)):
            yield ProcessGroup(
                str(group.get(Metadata.GROUP_NAME)),
                [r + shift for r in group[Metadata.GROUP_RANKS]],
                str(group.get(Metadata.GROUP_DESCRIPTION) or ""),
            )
