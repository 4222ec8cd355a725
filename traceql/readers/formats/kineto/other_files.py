"""Files that people load in place of a trace: what they are, and where the trace comes from."""

import re
from collections.abc import Callable, Iterable

_HEAD_BYTES = 4096
_EXPORT = "the trace is the file that export_chrome_trace or tensorboard_trace_handler writes"
_MEMORY_TIMELINE = f"a memory timeline of PyTorch (export_memory_timeline), not a trace; {_EXPORT}"
_SNAPSHOT = f"a snapshot of PyTorch's GPU memory (_dump_snapshot), not a trace; {_EXPORT}"
_EXECUTION = (
    "an execution trace of PyTorch (ExecutionTraceObserver), which has operators without times; "
    f"{_EXPORT}"
)
_WEIGHTS = "weights of a model, not a trace; load what the profiler wrote"
_PROTON_TREE = "totals of Triton's Proton, not a trace; record one with proton.start(data='trace')"
_NUMBERS = re.compile(rb"\s*\[\s*\[\s*(?:-?[\d.]+\s*[,\]]|\])")  # of lists of numbers
_VALUES = re.compile(rb"\s*\[\s*(?:([-\d])|(\")|([\[tfn]))")
_STACKS = re.compile(rb"(?:[^\n;]+;)+[^\n;]* \d+\r?\n")

_BINARY: list[tuple[Callable[[bytes], bool], str]] = [
    (
        lambda head: head.startswith((b"\xff\xfe", b"\xfe\xff")),
        "a text in UTF-16, as PowerShell writes it; save it as UTF-8",
    ),
    (lambda head: head.startswith(b"\x1f\x8b"), "compressed twice; unpack it once"),
    (lambda head: _is_pickle(head) and b"segments" in head, _SNAPSHOT),
    (lambda head: _is_pickle(head), "a pickle of Python, not a trace; load the profiler's file"),
    (lambda head: b"Memory Timeline" in head and b"<html" in head, _MEMORY_TIMELINE),
    (
        lambda head: head.lstrip()[:9].lower().startswith((b"<html", b"<!doctype")),
        "a web page, not a trace; load the file that it was made from",
    ),
    (
        lambda head: b"brain.Event:" in head[:64],
        "an event file of TensorBoard, not a trace; the trace is the .pt.trace.json beside it",
    ),
    (lambda head: _begins_like_safetensors(head) or head[:4] == b"GGUF", _WEIGHTS),
    (
        lambda head: head[:1] == b"\n" and (b"/host:" in head or b"/device:" in head),
        "an XPlane profile of JAX or TensorFlow; load the .trace.json.gz beside it",
    ),
    (
        lambda head: bool(_STACKS.match(head)),
        f"stacks for a flame graph (export_stacks), not a trace; {_EXPORT}",
    ),
]
# By keys of the JSON object, all of which it has.
_OBJECTS = [
    ({"segments", "device_traces"}, _SNAPSHOT),
    ({"schema", "nodes"}, _EXECUTION),
    ({"constants", "events"}, "a network log of Chrome (net-export), not a profiler trace"),
    ({"log"}, "a log of web requests (HAR), not a profiler trace"),
    ({"$schema", "profiles"}, "a profile for speedscope, not a trace"),
    ({"nodes", "samples"}, "a CPU profile of V8 (.cpuprofile), not a trace"),
    ({"model_type"}, "the configuration of a model, not a trace; give it with --model-config"),
]


def kind_of_bytes(text: bytes, name: str) -> str | None:
    """What a file is that is not JSON; None if it is unknown.

    Args:
        text: how it begins, or all of it.
        name: of the file.
    """
    if name.endswith(".qdrep"):
        return "an old report of Nsight Systems; convert it with nsys export --type sqlite"
    return next((kind for fits, kind in _BINARY if fits(text[:_HEAD_BYTES])), None)


def kind_of_object(keys: Iterable[str]) -> str | None:
    """What a JSON object without events is, by its keys; None if it is unknown."""
    found = set(keys)
    return next((kind for wanted, kind in _OBJECTS if wanted <= found), None)


def kind_of_list(text: bytes) -> str | None:
    """What a JSON list of other things than events is; None if it is unknown."""
    if _NUMBERS.match(text):
        return _MEMORY_TIMELINE
    if b'"frame"' in text and b'"metrics"' in text:
        return _PROTON_TREE
    if found := _VALUES.match(text):
        return _list_of(("numbers", "texts", "values")[(found.lastindex or 1) - 1])
    return None


def kind_of_nameless(text: bytes) -> str | None:
    """What a JSON list is whose objects have no name and no phase; None if they are empty."""
    return _list_of("other objects") if b'"' in text else None


def _list_of(what: str) -> str:
    return f"a JSON list of {what}, not a trace, which is a list of events; {_EXPORT}"


def _is_pickle(head: bytes) -> bool:
    return head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5")


def _begins_like_safetensors(head: bytes) -> bool:
    """Whether it is a length of 64 bits and the beginning of a JSON object."""
    return head[8:10] == b'{"' and head[4:8] == bytes(4)
