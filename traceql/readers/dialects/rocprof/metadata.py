"""Reads what the reader of rocprofv3's outputs states about a rank."""

from collections.abc import Mapping
from typing import Any

from traceql.readers.dialects.facts import FileFacts, process_on_gpu, profiler
from traceql.readers.dialects.rocprof.vocabulary import Metadata


def facts(metadata: Mapping[str, Any]) -> FileFacts:
    """The GPU of the rank. Times count from the start of the machine, so there is no base."""
    device, name = metadata.get(Metadata.DEVICE), metadata.get(Metadata.DEVICE_NAME)
    # The outputs do not have the profiler's version, only that of the tables of a database.
    form, schema = metadata.get(Metadata.FORM), metadata.get(Metadata.SCHEMA)
    return FileFacts(
        recorded=process_on_gpu(metadata.get(Metadata.PROCESS), device),
        form=str(metadata.get(Metadata.FORM, "")),
        device_names={} if device is None or name is None else {device: name},
        profiler=profiler(
            "rocprofv3", f"form {form}" if form else "", f"schema {schema}" if schema else ""
        ),
    )
