"""Situations of public reports (tests/reports/LOG.md), each in a small file of our own."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import traces
from command_line import called
from traces import flow, host, kernel, launch

import traceql

Event = traces.Event
_PROFILER = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
_PAIR = (launch(ts=100, correlation=1), kernel("gemm", ts=110, dur=10, correlation=1))
_SECOND = (launch(ts=120, correlation=2), kernel("gemm", ts=130, dur=10, correlation=2))


def trace(*events: Event, name: str = "trace.json", **about: Any) -> Callable[[Path], object]:
    """Writes events as PyTorch's profiler does."""
    return lambda folder: traces.write(folder / name, *events, **(_PROFILER | about))


def of_ranks(*names: str) -> Callable[[Path], object]:
    """Writes a launch and its kernel for each rank, whose metadata has its number."""
    return lambda folder: [
        trace(*_PAIR, name=name, distributedInfo={"rank": rank, "world_size": len(names)})(folder)
        for rank, name in enumerate(names)
    ]


def at_unix_time(*events: Event) -> list[Event]:
    return [e | {"ts": 1_795_000_000_000_000 + e["ts"]} for e in events]


def texts(**files: str | bytes) -> Callable[[Path], object]:
    """Writes files of any content; `_` stands for a dot in their names."""

    def write(folder: Path) -> None:
        folder.mkdir()
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (folder / name.replace("_", ".")).write_bytes(data)

    return write


def json_of(*events: Event) -> str:
    return json.dumps(_PROFILER | {"traceEvents": list(events)})


@dataclass(frozen=True)
class Case:
    """A report and the right answer.

    Attributes:
        source: repository and number.
        write: writes the input into a new folder.
        gpu: GPU activities, the first start and the last end of those that count, and the time in
            which one ran at least, ns after the first event; None without a GPU.
        fails: checks that must fail, and no others.
        answers: rows of statements.
        refused: a part of the one line of the refusal.
    """

    source: str
    write: Callable[[Path], object]
    gpu: tuple[int, int] | None = None  # activities, busy ns
    fails: tuple[str, ...] = ()
    answers: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    refused: str = ""


_KERNELS = "SELECT name, dur, stream, launch_id IS NULL FROM kernel ORDER BY ts, name"
_SLICES = "SELECT name, ts, dur FROM slice ORDER BY ts, dur DESC, name"
_RANKS = "SELECT rank, world_size FROM trace ORDER BY rank"
_DEVICES = "SELECT device, stream FROM kernel"
_ARROWS = "SELECT COUNT(*) FROM flow"
_ARRAY = [
    {"name": "aten::mul", "ph": "X", "ts": 633, "dur": 54, "tid": 1, "pid": "CPU functions"},
    {"name": "aten::add", "ph": "X", "ts": 725, "dur": 7, "tid": 1, "pid": "CPU functions"},
]  # fmt: skip


def _without(event: Event, *keys: str, args: tuple[str, ...] = ()) -> Event:
    kept = {k: v for k, v in event.items() if k not in keys}
    return kept | {"args": {k: v for k, v in event["args"].items() if k not in args}}


CASES = {
    "kernel-at-zero": Case(
        "pytorch/kineto#109",
        trace(
            *at_unix_time(*_PAIR, launch(ts=101, correlation=3)),
            kernel("lost", ts=0, dur=0, correlation=3, cat="Kernel") | {"tid": "stream 7"},
        ),
        gpu=(2, 10_000),
        fails=("activities with impossible times",),
    ),
    "half-of-the-events-at-zero": Case(
        "pytorch/pytorch#188481",
        trace(
            *at_unix_time(host("aten::mm", ts=99, dur=5), *_PAIR),
            *(kernel(f"k{n}", ts=0, dur=0, correlation=n) for n in range(10, 14)),
            *(launch(ts=0, dur=0, correlation=n) for n in range(10, 14)),
        ),
        gpu=(5, 10_000),
        fails=("activities with impossible times", "events with impossible times"),
    ),
    "end-of-zero": Case(
        "pytorch/kineto#646",
        trace(
            *_PAIR, launch(ts=121, correlation=4), kernel("odd", ts=150, dur=-150, correlation=4)
        ),
        gpu=(2, 10_000),
        fails=("negative durations",),
        answers={"SELECT dur FROM slice WHERE name = 'odd'": [(-150_000,)]},
    ),
    "quote-missing-before-a-key": Case(
        "pytorch/pytorch#33961",
        texts(trace_json='[{"name": "add", "ph": "f", "ts": 1, tid": 0, "pid": "CUDA functions"}]'),
        refused="damaged JSON",
    ),
    "source-line-as-name": Case(
        "pytorch/pytorch#113001",
        texts(
            trace_json=json_of(host("LINE", ts=1, dur=2, cat="python_function"), *_PAIR).replace(
                '"LINE"', '"lib = Library("_inductor", "IMPL")\n(1): <module>"'
            )
        ),
        gpu=(1, 10_000),
        answers={
            "SELECT name FROM slice WHERE cat = 'python_function'": [
                ('lib = Library("_inductor", "IMPL")\n(1): <module>',)
            ]
        },
    ),
    "control-character-in-a-name": Case(
        "pytorch/pytorch#130622",
        texts(trace_json=json_of(host("NAME", ts=1, dur=2), *_PAIR).replace("NAME", "a\x01b\tc")),
        gpu=(1, 10_000),
        answers={"SELECT name FROM slice WHERE cat = 'cpu_op'": [("a\x01b\tc",)]},
    ),
    "windows-paths": Case(
        "pytorch/pytorch#98432",
        texts(
            trace_json=json_of(host("PATH", ts=1, dur=2), *_PAIR).replace(
                "PATH", r"torch\cuda\__init__.py(219): _lazy_init"
            )
        ),
        gpu=(1, 10_000),
        answers={
            "SELECT name FROM slice WHERE cat = 'cpu_op'": [
                (r"torch\cuda\__init__.py(219): _lazy_init",)
            ]
        },
    ),
    "array-of-the-old-profiler": Case(
        "pytorch/pytorch#95460",
        texts(trace_json=json.dumps(_ARRAY)),
        answers={_SLICES: [("aten::mul", 0, 54_000), ("aten::add", 92_000, 7000)]},
    ),
    "name-in-another-encoding": Case(
        "pytorch/kineto#80",
        texts(
            trace_json=json_of(host("NAME", ts=1, dur=2), *_PAIR)
            .encode()
            .replace(b"NAME", b"k\xff\xfe")
        ),
        gpu=(1, 10_000),
        answers={"SELECT name FROM slice WHERE cat = 'cpu_op'": [("k\\xff\\xfe",)]},
    ),
    "absolute-times-as-text": Case(
        "Ascend/pytorch#133",
        trace(
            *(e | {"ts": f"1795000000000{e['ts']}.123", "dur": f"{e['dur']}.001"} for e in _PAIR)
        ),
        gpu=(1, 10_001),
        answers={"SELECT ts FROM kernel": [(10_000,)]},
    ),
    "time-not-a-number": Case(
        "catapult-project/catapult#1568",
        texts(trace_json=json_of(*_PAIR).replace('"ts": 110', '"ts": NaN')),
        refused="NaN",
    ),
    "negative-times": Case(
        "google/perfetto#107",
        trace(*(e | {"ts": e["ts"] - 1000} for e in _PAIR)),
        gpu=(1, 10_000),
        answers={"SELECT ts FROM kernel": [(10_000,)]},
    ),
    "kernels-overlap-on-a-stream": Case(
        "google/perfetto#4280",
        trace(*_PAIR, launch(ts=102, correlation=2), kernel("next", ts=118, dur=6, correlation=2)),
        gpu=(2, 14_000),
        answers={_KERNELS: [("gemm", 10_000, 7, False), ("next", 6000, 7, False)]},
    ),
    "thin-kernel-inside-another": Case(
        "pytorch/kineto#136",
        trace(*_PAIR, launch(ts=102, correlation=2), kernel("thin", ts=115, dur=0, correlation=2)),
        gpu=(2, 10_000),
    ),
    "kernel-longer-than-the-stream-allows": Case(
        "AMD-AGI/TraceLens#669",
        trace(_PAIR[0], kernel("fmha", ts=110, dur=1000, correlation=1), *_SECOND),
        gpu=(2, 1_000_000),
        answers={"SELECT value FROM ledger WHERE check_name = 'overlapping events'": [(0,)]},
    ),
    "correlation-zero-of-collectives": Case(
        "ROCm/roctracer#100",
        trace(
            launch(ts=100, correlation=7, name="hipExtLaunchKernel"),
            launch(ts=102, correlation=8, name="hipExtLaunchKernel"),
            *(kernel("ncclDevKernel_Generic", ts=t, dur=5, correlation=0) for t in (110, 120)),
        ),
        gpu=(2, 10_000),
        answers={"SELECT category, launch_id FROM kernel": [("collective", None)] * 2},
    ),
    "flow-without-a-start": Case(
        "AMD-AGI/TraceLens#996",
        trace(*_PAIR, flow("f", ts=110, pid=0, tid=7)),
        gpu=(1, 10_000),
        answers={_KERNELS: [("gemm", 10_000, 7, False)], _ARROWS: [(0,)]},
    ),
    "kernels-with-one-correlation": Case(
        "pytorch/kineto#1416",
        trace(*_PAIR, kernel("gemm2", ts=110, dur=10, correlation=1, stream=8)),
        gpu=(2, 10_000),
        answers={_KERNELS: [("gemm", 10_000, 7, False), ("gemm2", 10_000, 8, False)]},
    ),
    "stream-of-32-bits": Case(
        "pytorch/kineto#884",
        trace(*_PAIR, kernel("Context Sync", ts=115, dur=50, cat="cuda_sync", stream=2**32 - 1)),
        gpu=(1, 10_000),
    ),
    "stream-of-64-bits": Case(
        "openxla/xla#46182",
        trace(_PAIR[0], kernel("gemm", ts=110, dur=10, correlation=1, stream=2**64 - 1)),
        gpu=(1, 10_000),
        answers={"SELECT args ->> 'stream' FROM slice WHERE name = 'gemm'": [(str(2**64 - 1),)]},
    ),
    "stream-sync-on-a-row-of-its-own": Case(
        "pytorch/kineto#1356",
        trace(*_PAIR, kernel("Stream Sync", ts=101, dur=40, cat="cuda_sync") | {"tid": 1_000_007}),
        gpu=(1, 10_000),
    ),
    "gpu-annotation-without-a-stream": Case(
        "facebookresearch/HolisticTraceAnalysis#8",
        trace(
            *_PAIR,
            _without(
                kernel("step", ts=105, dur=20, cat="gpu_user_annotation"), args=("stream", "device")
            ),
        ),
        gpu=(1, 10_000),
    ),
    "no-runtime-calls": Case(
        "facebookresearch/HolisticTraceAnalysis#16",
        trace(_PAIR[1], _SECOND[1]),
        gpu=(2, 20_000),
        answers={_KERNELS: [("gemm", 10_000, 7, True)] * 2},
    ),
    "no-rank-anywhere": Case(
        "facebookresearch/HolisticTraceAnalysis#107",
        trace(*_PAIR, record_shapes=1, with_stack=1, profile_memory=1),
        gpu=(1, 10_000),
        answers={_RANKS: [(0, 1)]},
    ),
    "hosts-that-look-like-ranks": Case(
        "facebookresearch/HolisticTraceAnalysis#148",
        of_ranks(
            "r1t01_49177.1718116849177.pt.trace.json",
            "r1t03_53384.1718116853384.pt.trace.json",
            "r1t07_27283.1718116827283.pt.trace.json",
        ),
        gpu=(3, 30_000),
        answers={
            _RANKS: [(0, 3), (1, 3), (2, 3)],
            "SELECT rank FROM trace WHERE path LIKE '%r1t07%'": [(2,)],
        },
    ),
    "all-files-named-r0": Case(
        "meta-pytorch/torchtune#2504",
        of_ranks(*(f"r0-2025-3-14.17419887812{9 - rank}.pt.trace.json.gz" for rank in (0, 1))),
        gpu=(2, 20_000),
        answers={_RANKS: [(0, 2), (1, 2)]},
    ),
    "gz-without-content": Case(
        "pytorch/pytorch#167707",
        texts(trace_json_gz=gzip.compress(b"")),
        refused="empty file",
    ),
    "two-processes-in-one-gz": Case(
        "sgl-project/sglang#15326",
        texts(trace_json_gz=gzip.compress(json_of(*_PAIR).encode()) * 2),
        refused="goes on after the end",
    ),
    "gz-in-members": Case(
        "sgl-project/sglang#15326 (one text)",
        texts(
            trace_json_gz=b"".join(
                gzip.compress(json_of(*_PAIR).encode()[at : at + 100]) for at in range(0, 2000, 100)
            )
        ),
        gpu=(1, 10_000),
    ),
    "gz-named-json": Case(
        "pytorch/pytorch#56554",
        texts(trace_json=gzip.compress(json_of(*_PAIR).encode())),
        gpu=(1, 10_000),
    ),
    "argument-twice": Case(
        "pytorch/pytorch#194854",
        texts(trace_json=json_of(*_PAIR).replace('"stream": 7', '"stream": 7, "stream": 20')),
        gpu=(1, 10_000),
        answers={_DEVICES: [(0, 20)]},
    ),
    "coalesced-collective": Case(
        "mlcommons/chakra#178",
        trace(
            host("nccl:coalesced", ts=99, dur=4, cat="user_annotation"),
            launch(ts=100, correlation=1),
            kernel("ncclDevKernel_AllGather_RING_LL", ts=110, dur=10, correlation=1),
        ),
        gpu=(1, 10_000),
        answers={"SELECT op, bytes FROM collective": [("all_gather", None)]},
    ),
    "all-kernels-out-of-range": Case(
        "pytorch/kineto#996",
        trace(*(launch(ts=100 + n, correlation=n) for n in range(1, 4))),
        fails=("launches without a recorded kernel",),
    ),
    "amd-without-device-and-bytes": Case(
        "pytorch/pytorch#130560",
        trace(
            launch(ts=100, correlation=1, name="hipMemcpyWithStream"),
            _without(
                kernel("CopyHostToDevice", ts=110, dur=10, correlation=1, cat="gpu_memcpy"),
                args=("device", "stream", "correlation"),
            ),
        ),
        gpu=(1, 10_000),
        answers={"SELECT device, bytes FROM kernel": [(0, None)]},
    ),
    "one-line-of-rocprof": Case(
        "ROCm/rocprofiler#104",
        texts(results_json=',{"args":{"name":"COPY"},"ph":"M","pid":1,"name":"process_name"}'),
        refused="not a trace",
    ),
    "rocprof-times-as-text": Case(
        "ROCm/rocprofiler#152",
        texts(
            results_json=json.dumps(
                {
                    "traceEvents": [
                        {
                            "ph": "X",
                            "name": f"k{n}",
                            "pid": 9,
                            "tid": n,
                            "ts": f"{213757592000 + n}",
                            "dur": "143",
                        }
                        for n in (3, 4)
                    ]
                }
            )
        ),
        answers={_SLICES: [("k3", 0, 143_000), ("k4", 1000, 143_000)]},
    ),
    "events-at-one-time": Case(
        "google/perfetto#423",
        trace(*(host("work", ts=5, dur=d) for d in (0, 3, 0)), *_PAIR),
        gpu=(1, 10_000),
        answers={"SELECT COUNT(*) FROM slice WHERE name = 'work'": [(3,)]},
    ),
    "children-before-parents": Case(
        "jlfwong/speedscope#345",
        trace(host("child", ts=2, dur=2), host("parent", ts=1, dur=9), *_PAIR),
        gpu=(1, 10_000),
        answers={
            "SELECT p.name FROM slice c JOIN slice p ON c.parent_id = p.id": [("parent",)],
        },
    ),
    "lists-joined-without-a-comma": Case(
        "Ascend/pytorch#27",
        texts(trace_view_json=json.dumps(_ARRAY) + json.dumps(_ARRAY)),
        refused="goes on after the end",
    ),
    "allocations-of-the-host": Case(
        "facebookresearch/HolisticTraceAnalysis#222",
        trace(
            *_PAIR,
            {
                "ph": "i",
                "cat": "cpu_instant_event",
                "s": "t",
                "name": "[memory]",
                "pid": 100,
                "tid": 100,
                "ts": 104,
                "args": {
                    "Total Allocated": 64,
                    "Bytes": -32,
                    "Addr": 2**63 + 5,
                    "Device Id": -1,
                    "Device Type": 0,
                },
            },
        ),
        gpu=(1, 10_000),
        answers={"SELECT bytes_delta, device_type FROM memory": [(-32, "cpu")]},
    ),
    "gap-in-step-numbers": Case(
        "pytorch/pytorch#148314",
        trace(
            *(
                e
                for n in (1, 4)
                for e in (
                    host(f"ProfilerStep#{n}", ts=n * 100, dur=90, cat="user_annotation"),
                    launch(ts=n * 100 + 1, correlation=n),
                    kernel("gemm", ts=n * 100 + 10, dur=10, correlation=n),
                )
            )
        ),
        gpu=(2, 20_000),
        answers={"SELECT COUNT(*) FROM step": [(2,)]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_public_report(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    case.write(folder := tmp_path / "in")
    database = tmp_path / "run.duckdb"
    files = sorted(folder.iterdir())
    done = called("load", *files, "-o", database)
    if case.refused:
        lines = done.stderr.decode().splitlines()
        assert (done.returncode, done.stdout, len(lines)) == (1, b"", 1)
        assert case.refused in lines[0]
        assert not database.exists()
        return
    assert done.returncode == 0, done.stderr
    with traceql.open(database) as run:
        (counted,) = run.sql("SELECT COUNT(*) AS n FROM kernel").rows()
        busy = sum(
            r["window_ns"] - r["idle_ns"] for r in run.run("time.breakdown", by="rank").rows()
        )
        assert ((counted["n"], busy) if counted["n"] else None) == case.gpu
        failed = {r["check_name"] for r in run.sql("FROM ledger WHERE ok IS FALSE").rows()}
        assert failed - {"time classified other"} == set(case.fails)
        for statement, rows in case.answers.items():
            assert [tuple(row.values()) for row in run.sql(statement).rows()] == rows
        for query in (
            "overview.findings",
            "ops.top",
            "ops.by_shape",
            "annotations.gpu",
            "idle.gaps",
        ):
            run.run(query).rows()


def test_every_report_is_in_the_log() -> None:
    log = Path(__file__).with_name("reports").joinpath("LOG.md").read_text()
    assert [case.source for case in CASES.values() if f"{case.source} |" not in log] == []
