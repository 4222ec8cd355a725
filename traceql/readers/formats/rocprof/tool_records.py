"""The records of rocprofv3's JSON (ROCprofiler-SDK's serialization), as far as they are read."""

from typing import Any

import msgspec


class Handle(msgspec.Struct):
    handle: int = 0


class Size(msgspec.Struct):
    x: int
    y: int
    z: int


class Correlation(msgspec.Struct):
    internal: int = 0


class DispatchInfo(msgspec.Struct):
    agent_id: Handle
    kernel_id: int
    dispatch_id: int
    workgroup_size: Size
    grid_size: Size
    queue_id: Handle = msgspec.field(default_factory=Handle)
    private_segment_size: int | None = None
    group_segment_size: int | None = None


class Timed(msgspec.Struct):
    """What all records have."""

    kind: int
    start_timestamp: int
    end_timestamp: int
    thread_id: int | None = None
    operation: int = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class Kernel(Timed, kw_only=True):
    dispatch_info: DispatchInfo
    stream_id: Handle | None = None


class Copy(Timed, kw_only=True):
    dst_agent_id: Handle
    src_agent_id: Handle
    bytes: int | None = None  # absent before ROCm 6.3
    stream_id: Handle | None = None


class Call(Timed, kw_only=True):
    args: Any = None


class Allocation(Timed, kw_only=True):
    agent_id: Handle = msgspec.field(default_factory=Handle)
    address: Any = None  # hexadecimal text, or an object
    allocation_size: int | None = None


class DispatchData(msgspec.Struct):
    dispatch_info: DispatchInfo
    start_timestamp: int = 0
    end_timestamp: int = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class CounterValue(msgspec.Struct):
    counter_id: Handle
    value: float


class CounterRecord(msgspec.Struct):
    dispatch_data: DispatchData
    records: list[CounterValue]
    thread_id: int | None = None
    stream_id: Handle | None = None


class Agent(msgspec.Struct):
    id: Handle
    type: int
    logical_node_type_id: int | None = None
    name: str | None = None
    product_name: str | None = None


class Symbol(msgspec.Struct):
    kernel_id: int = 0
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    kernel_name: str = ""
    arch_vgpr_count: int | None = None
    accum_vgpr_count: int | None = None
    sgpr_count: int | None = None


class Counter(msgspec.Struct):
    id: Handle
    name: str


class Kind(msgspec.Struct):
    """A kind of records, by its place in a list, and its operations."""

    kind: str = ""
    operations: list[str] = []


class Strings(msgspec.Struct):
    buffer_records: list[Kind] = []
    marker_api: Any = None


class About(msgspec.Struct):
    pid: int | None = None
    command: Any = None


class ToolProcess(msgspec.Struct):
    """What is in the file about one process; the lists of records are decoded later."""

    buffer_records: dict[str, msgspec.Raw]
    strings: Strings = msgspec.field(default_factory=Strings)
    metadata: About = msgspec.field(default_factory=About)
    agents: list[Agent] = []
    kernel_symbols: list[Symbol] = []
    counters: list[Counter] = []
    callback_records: dict[str, msgspec.Raw] = {}


class Document(msgspec.Struct):
    processes: list[ToolProcess] = msgspec.field(name="rocprofiler-sdk-tool")
