"""The vocabulary of Nsight Systems exports: categories of events, which stand for tables.

The categories that PyTorch's profiler has too are spelled as there.
"""

from collections.abc import Mapping
from enum import StrEnum

from traceql.readers.dialects.event_kinds import EventKind


class Category(StrEnum):
    """The category of an event, by the table that it comes from."""

    KERNEL = "kernel"  # CUPTI_ACTIVITY_KIND_KERNEL
    MEMCPY = "gpu_memcpy"  # CUPTI_ACTIVITY_KIND_MEMCPY
    MEMSET = "gpu_memset"  # CUPTI_ACTIVITY_KIND_MEMSET
    GRAPH = "cuda_graph"  # CUPTI_ACTIVITY_KIND_GRAPH_TRACE: a replay, without its kernels
    RUNTIME = "cuda_runtime"  # CUPTI_ACTIVITY_KIND_RUNTIME, event class 0
    DRIVER = "cuda_driver"  # CUPTI_ACTIVITY_KIND_RUNTIME, event class 1
    SYNC = "cuda_sync"  # CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
    NVTX = "nvtx"  # NVTX_EVENTS
    OS = "os_runtime"  # OSRT_API
    OFF_CPU = "off_cpu"  # SCHED_EVENTS: from leaving a CPU to the next time on one
    OVERHEAD = "overhead"  # PROFILER_OVERHEAD
    EVENT = "cuda_event"  # CUPTI_ACTIVITY_KIND_CUDA_EVENT
    MEMORY = "cuda_memory"  # CUDA_GPU_MEMORY_USAGE_EVENTS


CATEGORIES: Mapping[str, EventKind] = {
    Category.KERNEL: EventKind.KERNEL,
    Category.GRAPH: EventKind.KERNEL,
    Category.MEMCPY: EventKind.MEMCPY,
    Category.MEMSET: EventKind.MEMSET,
    Category.RUNTIME: EventKind.LAUNCH,
    Category.DRIVER: EventKind.LAUNCH,
    Category.NVTX: EventKind.ANNOTATION,
    Category.OFF_CPU: EventKind.OFF_CPU,
}


class Argument(StrEnum):
    """Keys of the payload that NCCL gives its NVTX ranges (src/include/nvtx_payload_schemas.h)."""

    COMMUNICATOR = "NCCL communicator ID"
    MESSAGE_SIZE = "Message size [bytes]"
    WORLD_SIZE = "No. of ranks"
    RANK = "Rank"
    PEER = "Peer rank"


class Metadata(StrEnum):
    """Keys of what the reader states about a rank (column metadata of table trace)."""

    VERSION = "version"  # of Nsight Systems
    SCHEMA = "schema"  # version of the export's tables
    MACHINE = "machine"  # number of the machine in the report, where process ids are unique
    PROCESS = "process"  # id of the process
    PROCESS_NAME = "process_name"
    DEVICE = "device"  # number of the GPU in its process
    DEVICE_NAME = "device_name"
    DEVICE_UUID = "device_uuid"
    RANK = "rank"
    WORLD_SIZE = "world_size"
    RANK_SOURCE = "rank_source"
    BASE_TIME = "utc_epoch_ns"  # Unix time of the start of the session, ns
    GRAPH_MODE = "cuda_graph_trace"  # Node or Graph: what was recorded of CUDA graphs
