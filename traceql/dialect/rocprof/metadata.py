"""Reads what the reader of rocprofv3's outputs tells of a rank."""

from collections.abc import Mapping
from typing import Any

from traceql.dialect.facts import FileFacts, process_on_gpu
from traceql.dialect.rocprof.vocabulary import Metadata


def facts(metadata: Mapping[str, Any]) -> FileFacts:
    """The GPU of the rank. Times count from the start of the machine, so there is no base."""
    device, name = metadata.get(Metadata.DEVICE), metadata.get(Metadata.DEVICE_NAME)
    return FileFacts(
        recorded=process_on_gpu(metadata.get(Metadata.PROCESS), device),
        form=str(metadata.get(Metadata.FORM, "")),
        device_names={} if device is None or name is None else {device: name},
    )
