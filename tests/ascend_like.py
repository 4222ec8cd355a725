"""Traces as Ascend's profiler writes them in text form, in words.

`write(folder, call(ts=0, dur=5, connection=1), task("RmsNorm", ts=9, dur=5, connection=1))` is the
output folder of one rank. Times are ns since `BASE_NS`; the files have them as text in us.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import traceql

BASE_NS = 1_790_857_026_000_000_000  # Unix time
EAGER = 4294967295
PYTHON, CANN, HARDWARE, HCCL = "Python", "CANN", "Ascend Hardware", "HCCL"
OVERLAP, FREQUENCY = "Overlap Analysis", "AI Core Freq"
_PIDS = {PYTHON: 100, CANN: 3200, HARDWARE: 3201, HCCL: 3202, OVERLAP: 3203, FREQUENCY: 3204}
HOST_THREAD = 101
Event = dict[str, Any]


def us(ns: int) -> str:
    """A time as the files have it."""
    return f"{(BASE_NS + ns) // 1000}.{(BASE_NS + ns) % 1000:03}"


def values(trace: traceql.Trace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql).rows()]


def _complete(process: str, tid: Any, name: str, ts: int, dur: float, **more: Any) -> Event:
    place = {"ph": "X", "name": name, "pid": _PIDS[process], "tid": tid}
    return place | {"ts": us(ts), "dur": dur / 1000} | more


def operator(name: str, *, ts: int, dur: int, cat: str = "cpu_op") -> Event:
    args = {"Sequence number": -1, "Fwd thread id": 0}
    return _complete(PYTHON, HOST_THREAD, name, ts, dur, cat=cat, args=args)


def call(
    name: str = "Node@launch",
    *,
    ts: int,
    dur: int = 1000,
    connection: int = 0,
    level: str = "node",
    tid: int = HOST_THREAD,
) -> Event:
    args = {"Thread Id": tid, "level": level, "connection_id": connection}
    return _complete(CANN, tid, name, ts, dur, args=args)


def task(
    name: str,
    *,
    ts: int,
    dur: float,
    connection: int = 0,
    kind: str = "AI_CORE",
    stream: int = 2,
    model: int = EAGER,
    number: int = 0,
    **args: Any,
) -> Event:
    known = {"Model Id": model, "Task Type": kind, "Physic Stream Id": stream, "Task Id": number}
    args = known | {"connection_id": connection} | args
    return _complete(HARDWARE, stream, name, ts, dur, args=args)


def operation(
    name: str, *, ts: int, dur: float, connection: int = 0, thread: int = 0, **args: Any
) -> Event:
    """A whole operation of communication."""
    known = {"connection_id": connection, "data_type": "BFP16", "alg_type": "MESH", "count": 4096}
    return _complete(HCCL, thread, name, ts, dur, args=known | args)


def part(
    name: str, *, ts: int, dur: float, peer: int, plane: int = 0, transport: str = "SDMA"
) -> Event:
    """A task on a plane of the group."""
    args = {"src rank": 0, "dst rank": peer, "transport type": transport, "size(Byte)": 64}
    return _complete(HCCL, 1 + plane, name, ts, dur, args=args)


def overlap(name: str, *, ts: int, dur: int) -> Event:
    return _complete(OVERLAP, 0, name, ts, dur)


def frequency(mhz: int, *, ts: int) -> Event:
    event = {"ph": "C", "name": "AI Core Freq", "pid": _PIDS[FREQUENCY], "tid": 0, "ts": us(ts)}
    return event | {"args": {"MHz": mhz}}


def named(events: Iterable[Event], label: str = "NPU 3") -> list[Event]:
    """The events, with the names of the tracks that they are on, as at the end of a file."""
    listed = list(events)
    found: list[tuple[str, int, int, dict[str, str]]] = []
    for process, pid in _PIDS.items():
        tids = sorted({e["tid"] for e in listed if e["pid"] == pid and isinstance(e["tid"], int)})
        if tids:
            on_host = process in (PYTHON, CANN)
            found.append(("process_name", pid, 0, {"name": process}))
            found.append(("process_labels", pid, 0, {"labels": "CPU" if on_host else label}))
        for tid in tids:
            name = f"Stream {tid}" if process == HARDWARE else f"Thread {tid}"
            if process == HCCL:
                name = f"Plane {tid - 1}" if tid else "Group 0 Communication"
            found.append(("thread_name", pid, tid, {"name": name}))
    keys = ("name", "pid", "tid", "args")
    return listed + [{"ph": "M"} | dict(zip(keys, one, strict=True)) for one in found]


def write(
    folder: Path,
    *events: Event,
    rank: int | str | None = 0,
    files: Mapping[str, str] | None = None,
    distributed: Mapping[str, Any] | None = None,
) -> Path:
    """Writes the folder of a rank; returns its trace_view.json."""
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    trace = output / "trace_view.json"
    trace.write_text(json.dumps(named(events)))
    if rank is not None:
        info: dict[str, Any] = {"config": {}, "torch_npu_version": "2.7.1", "rank_id": rank}
        (folder / f"profiler_info_{rank}.json").write_text(json.dumps(info))
    if distributed is not None:
        document = {"distributed_args": distributed, "ENV_VARIABLES": {}}
        (folder / "profiler_metadata.json").write_text(json.dumps(document))
    for name, content in (files or {}).items():
        (output / name).write_text(content)
    return trace
