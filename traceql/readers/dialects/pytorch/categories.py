"""Categories of events that PyTorch's native recorder writes without one: from their arguments."""

import re
from collections.abc import Container, Mapping

# The first key that an event has decides; those of activities come before those of calls.
_BY_ARGUMENT = {
    "cuda_sync_kind": "cuda_sync",
    "cuda event": "graph_event_node",
    "copy kind": "gpu_memcpy",
    "memory kind": "gpu_memset",
    "registers per thread": "kernel",
    "grid": "kernel",
    "Python id": "python_function",
    "Python module id": "python_function",
    "Input Dims": "cpu_op",
    "Sequence number": "cpu_op",
    "Fwd thread id": "cpu_op",
}
ARGUMENTS = frozenset({*_BY_ARGUMENT, "cbid", "External id"})  # by which its traces are recognised
_OVERHEAD_PID = -1
_DRIVER_CALL = re.compile(r"cu[A-Z]")
_OPERATOR = re.compile(r"\w+::|\w+Backward\d*$")


def category_of(name: str, args: Container[str], *, pid: int, on_a_stream: bool) -> str:
    """The category that the JSON of the same recording has.

    Args:
        on_a_stream: whether activities of a GPU are on the same track.
    """
    if known := next((cat for key, cat in _BY_ARGUMENT.items() if key in args), None):
        return known
    if "cbid" in args:
        return "cuda_driver" if _DRIVER_CALL.match(name) else "cuda_runtime"
    if pid == _OVERHEAD_PID:
        return "overhead"
    if on_a_stream:
        return "gpu_user_annotation" if "External id" in args else "graph_event_node"
    return "cpu_op" if _OPERATOR.match(name) else "user_annotation"


def is_activity(args: Mapping[str, object]) -> bool:
    """Whether an event with these arguments is a kernel, a copy or a memset."""
    return not {"registers per thread", "grid", "copy kind", "memory kind"}.isdisjoint(args)
