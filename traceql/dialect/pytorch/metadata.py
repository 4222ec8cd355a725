"""Reads the metadata of a trace file: its job, its clock and its devices."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Metadata = Mapping[str, Any]


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


def distributed_info(metadata: Metadata, rank: int | None = None) -> DistributedInfo:
    """What the metadata of a file says about its job; values of an unexpected type are ignored.

    Args:
        metadata: the top-level keys of the file.
        rank: the rank of the file in the run, if it is known.
    """
    given = metadata.get("distributedInfo")
    info = given if isinstance(given, dict) else {}
    own, size = _integer(info.get("rank")), _integer(info.get("world_size"))
    shift = rank - own if rank is not None and own is not None else 0
    return DistributedInfo(own, size, shift, list(_groups(info.get("pg_config"), shift)))


def base_time_ns(metadata: Metadata) -> int | None:
    """The time that the file's times count from, ns; None if it has no such integer."""
    given = metadata.get("baseTimeNanoseconds")
    text = given if isinstance(given, str) else str(given)
    return int(text[:30]) if re.fullmatch(r"-?\d+", text) else None


def device_name(metadata: Metadata, device: int) -> str | None:
    """The name of the device with this number on its host; None if the file does not have it."""
    listed = metadata.get("deviceProperties")
    for properties in listed if isinstance(listed, list) else []:
        if isinstance(properties, dict) and _number(properties.get("id")) == device:
            name = properties.get("name")
            return name if name is None else str(name)
    return None


def is_ranks(value: object) -> bool:
    """Whether this is a list of ranks that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(r, int) for r in value)


def loaded_metadata(text: str | None) -> Metadata:
    """The metadata in a JSON text, as the table trace has it."""
    metadata: Metadata = json.loads(text or "{}")
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
        if isinstance(group, dict) and is_ranks(group.get("ranks")):
            yield ProcessGroup(
                str(group.get("pg_name")),
                [r + shift for r in group["ranks"]],
                str(group.get("pg_desc") or ""),
            )
