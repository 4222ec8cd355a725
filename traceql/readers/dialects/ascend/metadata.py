"""Reads what the readers of Ascend profiles tell of a rank."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from traceql.readers.dialects.ascend.vocabulary import MOST_RANKS, Metadata
from traceql.readers.dialects.facts import FileFacts, ProcessGroup, is_ranks, profiler


def facts(metadata: Mapping[str, Any]) -> FileFacts:
    """From the metadata of one rank; what the profile does not tell is None."""
    stated, least = metadata.get(Metadata.WORLD_SIZE), least_world_size(metadata)
    device, name = metadata.get(Metadata.DEVICE), metadata.get(Metadata.DEVICE_NAME)
    return FileFacts(
        rank=metadata.get(Metadata.RANK),
        world_size=None if stated is None else max(stated, least),
        least_world_size=least,
        job_source=str(metadata.get(Metadata.RANK_SOURCE)),
        groups=list(_groups(metadata.get(Metadata.GROUPS))),
        base_time_ns=0,  # times are Unix time
        device_names={} if device is None or name is None else {device: name},
        has_shared_group_names=True,
        profiler=_profiler(metadata),
    )


def _profiler(metadata: Mapping[str, Any]) -> str:
    torch_npu, cann = metadata.get(Metadata.TORCH_NPU), metadata.get(Metadata.CANN)
    return profiler(
        "Ascend profiler",
        re.sub("^Level", "level ", str(metadata.get(Metadata.LEVEL, ""))),
        f"torch_npu {torch_npu}" if torch_npu else "",
        f"CANN {cann}" if cann else "",
        f"form {metadata[Metadata.EXPORT]}" if Metadata.EXPORT in metadata else "",
    )


def least_world_size(metadata: Mapping[str, Any]) -> int:
    """The number of ranks that the job must have had, by all that names some of them."""
    groups = _groups(metadata.get(Metadata.GROUPS))
    in_groups = [rank + 1 for group in groups for rank in group.ranks if rank < MOST_RANKS]
    rank = metadata.get(Metadata.RANK)
    largest = metadata.get(Metadata.LARGEST_GROUP) or 0
    return max(largest, 0 if rank is None else rank + 1, *in_groups)


def _groups(listed: Any) -> Iterator[ProcessGroup]:
    for group in listed if isinstance(listed, list) else []:
        if is_ranks(group.get(Metadata.GROUP_RANKS)):
            yield ProcessGroup(
                str(group.get(Metadata.GROUP_NAME)),
                group[Metadata.GROUP_RANKS],
                str(group.get(Metadata.GROUP_DESCRIPTION) or ""),
            )
