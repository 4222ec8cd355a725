"""The vocabulary of Ascend profiles: categories, arguments and metadata of both exports.

The files have categories on PyTorch's own events alone; those of the others stand for the track and
the type of the task. The categories that PyTorch's profiler has too are spelled as there. Arguments
are spelled as in the text export (trace_view.json, kernel_details.csv), whichever the source is.
"""

from collections.abc import Mapping
from enum import StrEnum

from traceql.readers.dialects.event_kinds import EventKind


class Category(StrEnum):
    """The category of an event."""

    # PyTorch: track Python, table PYTORCH_API
    OPERATOR = "cpu_op"
    ANNOTATION = "user_annotation"  # cpu_op in the files, distinguished by its name
    FRAME = "python_function"
    ENQUEUE = "enqueue"  # of torch_npu's task queue
    DEQUEUE = "dequeue"
    # CANN: track CANN by its argument "level", table CANN_API by its type
    ACL = "cann_acl"
    MODEL = "cann_model"
    NODE = "cann_node"
    RUNTIME = "cann_runtime"
    COMMUNICATION_CALL = "cann_communication"  # level hccl in older files
    CALL = "cann"  # of another level
    MSTX = "mstx"  # a range of the program
    # The device: track Ascend Hardware, table TASK
    KERNEL = "kernel"  # a compute task
    MEMCPY = "gpu_memcpy"  # MEMCPY_ASYNC
    COMMUNICATION = "communication"  # a whole operation: thread "Group ... Communication"
    EVENT = "npu_event"  # a record of an event, or a wait for one
    TASK = "npu_task"  # any other task: parts of communication, placeholders
    PLANE = "communication_task"  # a part of communication: thread "Plane ..."
    MEMORY = "npu_memory"  # an allocation of torch_npu's allocator, or its release
    # What the profiler made of the others
    OVERLAP = "overlap_analysis"
    OTHER = "other"


CATEGORIES: Mapping[str, EventKind] = {
    Category.OPERATOR: EventKind.OPERATOR,
    Category.ANNOTATION: EventKind.ANNOTATION,
    Category.MSTX: EventKind.ANNOTATION,
    Category.FRAME: EventKind.FRAME,
    Category.ACL: EventKind.LAUNCH,
    Category.MODEL: EventKind.LAUNCH,
    Category.NODE: EventKind.LAUNCH,
    Category.RUNTIME: EventKind.LAUNCH,
    Category.COMMUNICATION_CALL: EventKind.LAUNCH,
    Category.CALL: EventKind.LAUNCH,
    Category.KERNEL: EventKind.KERNEL,
    Category.COMMUNICATION: EventKind.KERNEL,
    Category.MEMCPY: EventKind.MEMCPY,
}

# Numbers of ranks from here on stand for none.
MOST_RANKS = 2**31


class Argument(StrEnum):
    """Keys of an event's arguments."""

    CONNECTION = "connection_id"  # joins a call of CANN and the tasks that it started
    LEVEL = "level"  # of a call of CANN
    # Of hardware tasks
    TASK_TYPE = "Task Type"
    MODEL = "Model Id"
    STREAM = "Physic Stream Id"
    OLD_STREAM = "Stream Id"
    TASK = "Task Id"
    SIZE = "size(B)"  # of copies
    # Of compute tasks, from kernel_details.csv or COMPUTE_TASK_INFO
    TYPE = "Type"
    CORE = "Accelerator Core"
    BLOCK_DIM = "Block Dim"
    INPUT_SHAPES = "Input Shapes"
    INPUT_TYPES = "Input Data Types"
    OUTPUT_SHAPES = "Output Shapes"
    OUTPUT_TYPES = "Output Data Types"
    # Of whole operations of communication
    GROUP = "group"  # name of the communicator, from communication.json or COMMUNICATION_OP
    DATA_TYPE = "data_type"
    ALGORITHM = "alg_type"
    OPERATION_MODEL = "model id"  # as MODEL
    COUNT = "count"  # elements
    RANK_SIZE = "rank_size"  # ranks of the group
    # Of their parts, on the planes
    PART = "task type"
    SOURCE_RANK = "src rank"  # ranks in the group
    DESTINATION_RANK = "dst rank"
    PART_SIZE = "size(Byte)"
    TRANSPORT = "transport type"
    LINK = "link type"


class Metadata(StrEnum):
    """Keys of what the reader states about a file (column metadata of table trace)."""

    EXPORT = "export"  # text or db
    RANK = "rank"
    WORLD_SIZE = "world_size"
    RANK_SOURCE = "rank_source"
    DEVICE = "device"  # number of the NPU on its host
    DEVICE_NAME = "device_name"
    GROUPS = "groups"  # list of process groups: name, description, ranks
    GROUP_NAME = "name"
    GROUP_DESCRIPTION = "description"
    GROUP_RANKS = "ranks"
    LARGEST_GROUP = "largest_group"  # ranks of the largest communicator that operations ran in
    LAYOUT = "distributed_args"  # sizes of parallelism that the program stated
    TORCH_NPU = "torch_npu_version"
    CANN = "cann_version"
    LEVEL = "profiler_level"
