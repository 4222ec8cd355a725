"""The vocabulary of PyTorch's profiler: categories, arguments, metadata and names of events.

Python code refers to these names and does not repeat the words. SQL cannot refer to them: the SQL
in traceql/readers/dialects/pytorch/tables repeats the words that it reads, and
tests/test_dialect.py checks that they are the same.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

from traceql.readers.dialects.event_kinds import EventKind

# By category in lower case: profilers of other versions capitalise some of them.
CATEGORIES: Mapping[str, EventKind] = {
    "kernel": EventKind.KERNEL,
    "gpu_memcpy": EventKind.MEMCPY,
    "gpu_memset": EventKind.MEMSET,
    "cuda_runtime": EventKind.LAUNCH,
    "cuda_driver": EventKind.LAUNCH,
    "hip_runtime": EventKind.LAUNCH,
    "hip_driver": EventKind.LAUNCH,
    "xpu_runtime": EventKind.LAUNCH,
    "runtime": EventKind.LAUNCH,
    "cpu_op": EventKind.OPERATOR,
    "operator": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "gpu_user_annotation": EventKind.GPU_ANNOTATION,
    "python_function": EventKind.FRAME,
}
# Ends of the categories of other devices, such as mtia_runtime, privateuse1_driver and mlu_memcpy.
_ENDINGS: Mapping[str, EventKind] = {
    "_runtime": EventKind.LAUNCH,
    "_driver": EventKind.LAUNCH,
    "memcpy": EventKind.MEMCPY,
    "memset": EventKind.MEMSET,
    "_user_annotation": EventKind.GPU_ANNOTATION,
}
# Events with a device, a stream or a correlation that are not activities of a device:
# synchronisation, ranges, overhead of the profiler, and descriptions of collectives.
_NO_WORK = re.compile(
    r"^(trace|overhead|collective_comm|mtia_workloadd|external_correlation|cpu_instant_event)$"
    r"|_(sync|event|profiler|profiler_range|notifier|counters)$"
)
ON_GPU = frozenset({EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET})
GPU_CATEGORIES = frozenset(cat for cat, kind in CATEGORIES.items() if kind in ON_GPU)
# Categories of activities of other devices, whose events may lack a device and a stream.
DEVICE_CATEGORIES = frozenset({"mtia_ccp_events", "hpu_op", "gpu_op"})


def kind_of(cat: str) -> str | None:
    """The kind of events of a category, "other" for none of them.

    None if the category is unknown: then its events are activities if they are on a device
    (traceql.readers.device_activities).
    """
    lower = cat.lower()
    if lower in CATEGORIES:
        return CATEGORIES[lower]
    if _NO_WORK.search(lower):
        return "other"
    return next((kind for end, kind in _ENDINGS.items() if lower.endswith(end)), None)


class Argument(StrEnum):
    """Keys of an event's arguments."""

    # Of operators, launch calls and GPU activities
    EXTERNAL_ID = "External id"  # joins an operator, its launch calls and their activities
    CORRELATION = "correlation"  # joins a launch call and its activity
    INPUT_DIMS = "Input Dims"
    INPUT_TYPE = "Input type"
    CONCRETE_INPUTS = "Concrete Inputs"
    # Of GPU activities
    DEVICE = "device"
    STREAM = "stream"
    BYTES = "bytes"
    GRID = "grid"
    BLOCK = "block"
    GRAPH_NODE_ID = "graph node id"
    # Of NCCL kernels
    COLLECTIVE_NAME = "Collective name"
    PROCESS_GROUP_NAME = "Process Group Name"
    PROCESS_GROUP_RANKS = "Process Group Ranks"
    GROUP_SIZE = "Group size"
    IN_ELEMENTS = "In msg nelems"
    OUT_ELEMENTS = "Out msg nelems"
    DTYPE = "dtype"
    SOURCE_RANK = "Src Rank"
    DESTINATION_RANK = "Dst Rank"
    SEQUENCE = "Seq"
    IN_SPLIT = "In split size"
    # Of allocator events
    DEVICE_ID = "Device Id"
    DEVICE_TYPE = "Device Type"
    ALLOCATED_BYTES = "Bytes"
    TOTAL_ALLOCATED = "Total Allocated"
    TOTAL_RESERVED = "Total Reserved"
    ADDRESS = "Addr"


class Metadata(StrEnum):
    """Keys at the top of a trace file, and inside what they hold."""

    BASE_TIME = "baseTimeNanoseconds"  # Unix time that the file's times count from, ns
    DEVICE_PROPERTIES = "deviceProperties"  # list of devices
    DEVICE_NUMBER = "id"
    DEVICE_NAME = "name"
    DISTRIBUTED_INFO = "distributedInfo"  # what the process knew of its job
    RANK = "rank"
    WORLD_SIZE = "world_size"
    PROCESS_GROUPS = "pg_config"  # list of process groups
    GROUP_NAME = "pg_name"
    GROUP_DESCRIPTION = "pg_desc"
    GROUP_RANKS = "ranks"
    # Written by the reader, not by the profiler: the rank of a recording in a merged file
    MERGED = "mergedRank"
    MERGED_RANKS = "ranks"
    MERGED_NUMBER = "number"
    MERGED_LABEL = "label"


# Keys at the top of a file, which are 1 where the option was set: what the option records.
OPTIONS: Mapping[str, str] = {
    "record_shapes": "shapes",
    "with_stack": "stacks",
    "with_modules": "modules",
    "profile_memory": "memory",
    "with_flops": "FLOPs",
}


# Keys at the top of a file that are kept. A program can add its environment under any other one.
KNOWN_KEYS = frozenset(
    {
        *(Metadata.BASE_TIME, Metadata.DEVICE_PROPERTIES, Metadata.DISTRIBUTED_INFO, *OPTIONS),
        Metadata.MERGED,
        *("schemaVersion", "displayTimeUnit", "traceName", "trace_id"),
        # Versions
        *("cuda_driver_version", "cuda_runtime_version", "cupti_version", "cuda_version"),
        *("hip_driver_version", "hip_runtime_version", "roctracer_version", "rocm_version"),
        *("rocprofiler_version", "rocprofiler_sdk_version", "xpu_driver_version"),
        *("xpu_runtime_version", "nccl_version", "rccl_version", "python_version"),
        *("torch_version", "pytorch_version", "triton_version", "transformers_version"),
        *("vllm_version", "sglang_version", "tensorrt_llm_version", "deepspeed_version"),
        # The model
        *("model", "model_name", "model_id", "model_type"),
        # What PyTorch set, and messages of Kineto, such as how many records it left out
        *("DISABLE_CUPTI_LAZY_REINIT", "TEARDOWN_CUPTI"),
        *("VERBOSE", "INFO", "WARNING", "STAGE", "ERROR"),
    }
)


class EventName(StrEnum):
    """Names of events, or how they begin, that mean something by themselves."""

    ALLOCATOR = "[memory]"
    STEP = "ProfilerStep#"
    MODULE = "nn.Module: "
