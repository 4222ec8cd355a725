"""What values of rocprofv3's JSON mean."""

from collections.abc import Sequence
from typing import Any

from traceql.readers.dialects.rocprof.vocabulary import Argument
from traceql.readers.formats.rocprof import tool_records as tool
from traceql.readers.formats.rocprof.columns import json_text
from traceql.readers.formats.rocprof.recording import ITSELF

_HEXADECIMAL = 16


def usual(found: Sequence[tool.Timed], place: int | list[int] = ITSELF) -> dict[str, Any]:
    """The columns that all records have."""
    return {
        "ts": [one.start_timestamp for one in found],
        "dur": [one.end_timestamp - one.start_timestamp for one in found],
        "thread": [one.thread_id for one in found],
        "place": place,
        "correlation": [one.correlation_id.internal or None for one in found],
    }


def messages(given: Any) -> dict[int, str]:
    """The texts of markers by correlation, from a list of pairs of key and value."""
    listed = given if isinstance(given, list) else []
    return {
        one["key"]: str(one["value"])
        for one in listed
        if isinstance(one, dict) and isinstance(one.get("key"), int) and "value" in one
    }


def counted_kernel(one: tool.CounterRecord) -> tool.Kernel:
    data = one.dispatch_data
    return tool.Kernel(
        kind=0,
        start_timestamp=data.start_timestamp,
        end_timestamp=data.end_timestamp,
        thread_id=one.thread_id,
        correlation_id=data.correlation_id,
        dispatch_info=data.dispatch_info,
        stream_id=one.stream_id,
    )


def kernel_name(symbol: tool.Symbol, info: tool.DispatchInfo) -> str:
    """The name as the program's options ask for it, else as the compiler made it."""
    given = symbol.formatted_kernel_name or symbol.demangled_kernel_name or symbol.kernel_name
    return given or f"kernel {info.kernel_id}"


def kernel_args(symbol: tool.Symbol, info: tool.DispatchInfo) -> str | None:
    return json_text(
        {
            "dispatch_id": info.dispatch_id,
            "queue_id": info.queue_id.handle,
            "kernel_id": info.kernel_id,
            "private_segment_size": info.private_segment_size,
            "group_segment_size": info.group_segment_size,
            "arch_vgpr_count": symbol.arch_vgpr_count,
            "accum_vgpr_count": symbol.accum_vgpr_count,
            "sgpr_count": symbol.sgpr_count,
        }
    )


def graph_of(args: Any) -> str | None:
    """The graph among the arguments of a call: a list of names and values, or an object."""
    if isinstance(args, dict):
        args = [{"name": name, "value": value} for name, value in args.items()]
    for one in args if isinstance(args, list) else []:
        if isinstance(one, dict) and one.get("name") == Argument.GRAPH:
            return str(one.get("value"))
    return None


def address_of(given: Any) -> int | None:
    """An address, which is hexadecimal text or an object with a handle."""
    if isinstance(given, dict):
        given = given.get("handle")
    if isinstance(given, str):
        try:
            return int(given, _HEXADECIMAL)
        except ValueError:
            return None
    return given if isinstance(given, int) else None
