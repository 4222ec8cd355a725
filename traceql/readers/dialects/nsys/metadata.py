"""Reads what the reader of Nsight Systems exports states about a rank."""

from collections.abc import Mapping
from typing import Any

from traceql.readers.dialects.facts import FileFacts, process_on_gpu, profiler
from traceql.readers.dialects.nsys.vocabulary import Metadata


def facts(metadata: Mapping[str, Any]) -> FileFacts:
    """From the metadata of one rank; what the export does not tell is None."""
    device, name = metadata.get(Metadata.DEVICE), metadata.get(Metadata.DEVICE_NAME)
    version, graphs = metadata.get(Metadata.VERSION), metadata.get(Metadata.GRAPH_MODE)
    return FileFacts(
        rank=metadata.get(Metadata.RANK),
        process=metadata.get(Metadata.PROCESS),
        recorded=process_on_gpu(metadata.get(Metadata.PROCESS), device),
        world_size=metadata.get(Metadata.WORLD_SIZE),
        job_source=str(metadata.get(Metadata.RANK_SOURCE)),
        base_time_ns=metadata.get(Metadata.BASE_TIME),
        device_names={} if device is None or name is None else {device: name},
        profiler=profiler(
            f"Nsight Systems {version}" if version else "Nsight Systems",
            f"--cuda-graph-trace={str(graphs).lower()}" if graphs else "",
        ),
    )
