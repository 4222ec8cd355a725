"""Reads the metadata of a trace file: its job, its clock and its devices."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from traceql.readers.dialects.facts import FileFacts, ProcessGroup, is_ranks, profiler
from traceql.readers.dialects.pytorch.vocabulary import OPTIONS, Metadata


def facts(metadata: Mapping[str, Any]) -> FileFacts:
    """From the top-level keys of a file.

    Values of another type than expected say nothing, and neither do ranks that cannot be.
    """
    given = metadata.get(Metadata.DISTRIBUTED_INFO)
    info = given if isinstance(given, dict) else {}
    given = metadata.get(Metadata.MERGED)
    merged = given if isinstance(given, dict) else {}
    rank = _small_number(info.get(Metadata.RANK))
    labelled = _small_number(merged.get(Metadata.RANK))
    return FileFacts(
        rank=labelled if rank is None else rank,
        world_size=_small_number(info.get(Metadata.WORLD_SIZE)),
        label=str(merged.get(Metadata.MERGED_LABEL, "")) if merged else None,
        least_world_size=_small_number(merged.get(Metadata.MERGED_RANKS)) or 0,
        job_source=Metadata.DISTRIBUTED_INFO.value if rank is not None else "label in merged file",
        groups=list(_groups(info.get(Metadata.PROCESS_GROUPS))),
        base_time_ns=_base_time_ns(metadata.get(Metadata.BASE_TIME)),
        device_names=dict(_devices(metadata.get(Metadata.DEVICE_PROPERTIES))),
        profiler=_profiler(metadata),
    )


def _profiler(metadata: Mapping[str, Any]) -> str:
    """Only PyTorch's profiler writes its options or the properties of devices."""
    if not metadata.keys() & {Metadata.DEVICE_PROPERTIES, *OPTIONS}:
        return ""
    return profiler("PyTorch profiler", *(OPTIONS[key] for key in OPTIONS if metadata.get(key)))


def _base_time_ns(given: object) -> int | None:
    """An integer, or one as text."""
    text = given if isinstance(given, str) else str(given)
    return int(text[:30]) if re.fullmatch("-?[0-9]+", text) else None


def _devices(listed: Any) -> Iterator[tuple[int, str]]:
    for properties in listed if isinstance(listed, list) else []:
        if isinstance(properties, dict):
            number = _number(properties.get(Metadata.DEVICE_NUMBER))
            name = properties.get(Metadata.DEVICE_NAME)
            if number is not None and name is not None:
                yield number, str(name)


def _groups(listed: Any) -> Iterator[ProcessGroup]:
    """Those whose ranks the profiler wrote in full; it shortens long lists."""
    for group in listed if isinstance(listed, list) else []:
        if isinstance(group, dict) and is_ranks(group.get(Metadata.GROUP_RANKS)):
            yield ProcessGroup(
                str(group.get(Metadata.GROUP_NAME)),
                group[Metadata.GROUP_RANKS],
                str(group.get(Metadata.GROUP_DESCRIPTION) or ""),
            )


def _small_number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _number(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None
