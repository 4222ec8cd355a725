"""The vocabulary of rocprofv3: kinds of records, which its outputs spell in two ways.

Databases, JSON and CSV have the names of ROCprofiler-SDK's kinds of records, Perfetto traces have
names of their own. Programs that trace with rocprof-sys write the same databases with other words.
"""

from collections.abc import Mapping
from enum import StrEnum

from traceql.readers.dialects.event_kinds import EventKind


class Category(StrEnum):
    """The category of an event, where the reader and not the file gives it."""

    KERNEL = "KERNEL_DISPATCH"
    COPY = "MEMORY_COPY"
    ALLOCATION = "MEMORY_ALLOCATION"
    SCRATCH = "SCRATCH_MEMORY"


# By category in lower case.
CATEGORIES: Mapping[str, EventKind] = {
    "kernel_dispatch": EventKind.KERNEL,
    "memory_copy": EventKind.MEMCPY,
    "hip_runtime_api": EventKind.LAUNCH,
    "hip_runtime_api_ext": EventKind.LAUNCH,  # with arguments
    "marker_core_api": EventKind.ANNOTATION,
    "marker_core_range_api": EventKind.ANNOTATION,
    # Of Perfetto traces, which do not tell HIP's compiler API from its runtime.
    "hip_api": EventKind.LAUNCH,
    "marker_api": EventKind.ANNOTATION,
    # Of rocprof-sys
    "rocm_hip_api": EventKind.LAUNCH,
    "rocm_marker_api": EventKind.ANNOTATION,
}
ON_GPU = {Category.KERNEL, Category.COPY}
# What makes a Perfetto trace one of rocprofv3: PyTorch's profiler has none of these categories.
OF_PERFETTO = frozenset({"kernel_dispatch", "memory_copy", "hip_api", "hsa_api", "marker_api"})

GRAPH_LAUNCH = "GraphLaunch"  # in the name of the calls that launch a HIP graph
# Ranges that need not nest with those of their thread.
PROCESS_RANGES = ("roctxProcessRangeA", "roctxRangeStartA")
MARK = "roctxMarkA"

# The directions of copies, named as PyTorch's profiler names them.
COPIES: Mapping[str, str] = {
    "MEMORY_COPY_HOST_TO_HOST": "Memcpy HtoH (Host -> Host)",
    "MEMORY_COPY_HOST_TO_DEVICE": "Memcpy HtoD (Host -> Device)",
    "MEMORY_COPY_DEVICE_TO_HOST": "Memcpy DtoH (Device -> Host)",
    "MEMORY_COPY_DEVICE_TO_DEVICE": "Memcpy DtoD (Device -> Device)",
}


class Argument(StrEnum):
    """Keys of arguments that SQL or the reader needs."""

    # Of allocations, as the reader writes them
    ADDRESS = "address"
    BYTES = "bytes"
    DEVICE = "device"
    DEVICE_TYPE = "device_type"
    # Of calls of HIP, as in the file
    GRAPH = "graphExec"
    # Of Perfetto traces
    CORRELATION = "corr_id"
    STREAM = "stream_ID"
    STREAM_ID = "stream_id"  # as rocpd convert writes it
    QUEUE = "queue"
    AGENT = "agent"
    TARGET_AGENT = "dst_agent"
    SOURCE_AGENT = "src_agent"
    COPIED_BYTES = "copy_bytes"


class Metadata(StrEnum):
    """Keys of what the reader states about a rank (column metadata of table trace)."""

    FORM = "form"  # rocpd, json or csv
    SCHEMA = "schema"  # version of the database's tables
    PROCESS = "process"  # id of the process
    PROCESS_NAME = "process_name"
    DEVICE = "device"  # number of the GPU on its machine
    DEVICE_NAME = "device_name"
    ARCHITECTURE = "architecture"  # such as gfx942
    PLACE = "place"  # number of the rank in the file
