"""Devices that are neither CUDA nor ROCm: their activities are recognised by what they are."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import databases
import pytest
import traces
from command_line import output

import traceql
from traceql.present.pftrace import export_perfetto

REPORTS = databases.ROOT.parent / "shared" / "reports"
PARTS = """
    SELECT COUNT(*), COUNT(launch_id), MAX(ts + dur) - MIN(ts), SUM(dur), (SELECT SUM(dur) FROM gap)
    FROM kernel
"""


def opened(folder: Path, *events: traces.Event) -> traceql.Run:
    path = traces.write(folder / "trace.json", *events)
    return traceql.open(traceql.load(path, folder / "run.duckdb").database)


def rows(run: traceql.Run, sql: str) -> list[tuple[Any, ...]]:
    return run.select(sql).fetchall()


def failed(run: traceql.Run) -> list[str]:
    return [row[0] for row in rows(run, "SELECT check_name FROM ledger WHERE NOT ok")]


@pytest.mark.parametrize("name", ["accelerator.json", "privateuse1.json"])
def test_devices_of_the_reports(name: str, tmp_path: Path) -> None:
    path = REPORTS / "device-of-another-kind" / name
    if not path.exists():
        pytest.skip("needs shared/reports")
    run = traceql.open(traceql.load(path, tmp_path / "run.duckdb").database)
    assert rows(run, PARTS) == [(30, 30, 595_000, 450_000, 145_000)]
    assert failed(run) == []


def labelled(pid: int, label: str, *, name: str = "process_labels", tid: int = 0) -> traces.Event:
    key = "labels" if name == "process_labels" else "name"
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": {key: label}}


def on_track(name: str, *, ts: float, dur: float, pid: int, tid: int, **more: Any) -> traces.Event:
    return {
        "ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
    } | more  # fmt: skip


LAUNCHES = [(0, 1), (20, 2), (40, 3)]  # start of the kernel, us, and its correlation
HOST = labelled(traces.PID, "CPU")


def with_launches(activity: str, runtime: str, *labels: traces.Event) -> list[traces.Event]:
    """Three kernels of 15 us, 5 us apart, each launched 5 us before."""
    events = [HOST, *labels]
    for ts, number in LAUNCHES:
        call = traces.host("launch", ts=ts + 5, dur=3, cat=runtime, correlation=number)
        events += [
            call,
            traces.kernel("gemm", ts=ts + 10, dur=15, correlation=number, cat=activity),
        ]
    return events


@pytest.mark.parametrize(
    ("activity", "runtime"),
    [
        ("mtia_ccp_events", "mtia_runtime"),
        ("hpu_op", "privateuse1_runtime"),
        ("kernel", "xpu_runtime"),
        ("kernel", "xpu_driver"),
        ("kernel", "privateuse1_driver"),
        ("gcu_task", "gcu_runtime"),
        ("my_device_op", "my_device_api"),  # a launch by its correlation alone
    ],
)
def test_kernels_of_any_device_have_their_launch(
    activity: str, runtime: str, tmp_path: Path
) -> None:
    run = opened(tmp_path, *with_launches(activity, runtime))
    assert rows(run, PARTS) == [(3, 3, 55_000, 45_000, 10_000)]
    assert rows(run, "SELECT COUNT(*) FROM launch") == [(3,)]
    assert failed(run) == []


def test_events_on_the_track_of_a_device_are_activities_without_arguments(tmp_path: Path) -> None:
    copy = on_track("dma_request", ts=30, dur=6, pid=9, tid=801, cat="mtia_ccp_events", args={})
    kernel = on_track("fc", ts=10, dur=15, pid=9, tid=4, cat="mtia_other", args={"column": "0"})
    run = opened(tmp_path, HOST, copy, kernel, labelled(9, "MTIA 9"))
    assert rows(run, "SELECT device, stream, dur FROM kernel ORDER BY ts") == [
        (9, 4, 15_000),
        (9, 801, 6_000),
    ]


def test_copies_and_annotations_of_other_devices_keep_their_kind(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        HOST,
        traces.kernel("copy", ts=0, dur=4, cat="mlu_memcpy", correlation=1),
        traces.kernel("set", ts=5, dur=4, cat="mlu_memset", correlation=2),
        traces.kernel("forward", ts=0, dur=9, cat="mlu_user_annotation"),
    )
    assert rows(run, "SELECT kind FROM kernel ORDER BY ts") == [("memcpy",), ("memset",)]


NO_WORK = ["cuda_sync", "xpu_sync", "cuda_event", "overhead", "collective_comm", "mtia_workloadd",
           "gpu_user_annotation", "cuda_profiler_range", "Trace"]  # fmt: skip


@pytest.mark.parametrize("cat", NO_WORK)
def test_what_is_no_work_of_a_device_is_no_kernel(cat: str, tmp_path: Path) -> None:
    sync = traces.kernel("Stream Sync", ts=30, dur=50, cat=cat, correlation=9)
    run = opened(tmp_path, HOST, labelled(0, "GPU 0"), traces.kernel(ts=0, dur=5), sync)
    assert rows(run, "SELECT COUNT(*), SUM(dur) FROM kernel") == [(1, 5_000)]
    assert failed(run) == []


def test_a_native_trace_gives_the_same_activities(tmp_path: Path) -> None:
    run = opened(tmp_path, *with_launches("mtia_ccp_events", "mtia_runtime"))
    native = export_perfetto(run, tmp_path / "native.pftrace")
    again = traceql.open(traceql.load(native, tmp_path / "native.duckdb").database)
    # The export has no launch calls.
    assert rows(again, PARTS) == [(3, 0, 55_000, 45_000, 10_000)]


def unitrace() -> list[traces.Event]:
    """As Intel's unitrace writes: no device and no stream, but a process for each device."""
    device = "DEVICE<node>[Intel(R) Data Center GPU Max 1550] 0:29:0:0 #0"
    return [
        labelled(4_000_000, device, name="process_name"),
        labelled(7, "HOST<node>", name="process_name"),
        on_track("gemm_kernel", ts=5, dur=20, pid=4_000_000, tid=99, cat="gpu_op", args={"id": 1}),
        on_track("zeCommandListAppendLaunchKernel", ts=1, dur=2, pid=7, tid=7, cat="cpu_op"),
    ]  # fmt: skip


def jax() -> list[traces.Event]:
    """As JAX writes: no categories, and tracks that repeat the kernels of the streams."""
    lines = {1: "Stream #20(Compute)", 2: "XLA Ops", 3: "XLA Modules"}
    ops = {"hlo_op": "dot.1"}
    return [
        labelled(1, "/device:GPU:0 NVIDIA H100", name="process_name"),
        labelled(2, "/host:CPU", name="process_name"),
        *(labelled(1, line, name="thread_name", tid=tid) for tid, line in lines.items()),
        *(on_track("gemm_kernel", ts=5, dur=20, pid=1, tid=tid, args=ops) for tid in lines),
        on_track("PjitFunction(f)", ts=0, dur=30, pid=2, tid=5),
        {},
    ]


def proton() -> list[traces.Event]:
    """As Triton's profiler writes: a stream as the thread, and no process."""
    event = on_track("gemm_kernel", ts=5, dur=20, pid=0, tid=3, cat="kernel")
    return [{key: value for key, value in event.items() if key != "pid"}]


@pytest.mark.parametrize("events", [unitrace(), jax(), proton()], ids=["unitrace", "jax", "proton"])
def test_traces_of_other_profilers(events: Sequence[traces.Event], tmp_path: Path) -> None:
    run = opened(tmp_path, *events)
    assert rows(run, "SELECT name, ts - MIN(ts) OVER (), dur, category FROM kernel") == [
        ("gemm_kernel", 0, 20_000, "gemm")
    ]
    assert failed(run) == []


def test_a_file_with_a_document_for_each_stream_is_one_trace(tmp_path: Path) -> None:
    lines = []
    for stream in (3, 4):
        events = [dict(event, tid=stream) for event in proton()]
        lines.append(json.dumps({"displayTimeUnit": "us", "traceEvents": events}) + "\n")
    path = tmp_path / "proton.chrome_trace"
    path.write_text("".join(lines))
    run = traceql.open(traceql.load(path, tmp_path / "run.duckdb").database)
    assert rows(run, "SELECT stream, dur FROM kernel ORDER BY stream") == [(3, 20_000), (4, 20_000)]
    assert failed(run) == []


def test_events_of_gaudi_on_the_host_are_launches(tmp_path: Path) -> None:
    """Kineto has one category for both sides; the process of the host has operators."""
    call = traces.host("launch", ts=0, dur=2, cat="hpu_op", correlation=1)
    odd = traces.host("wait", ts=30, dur=9, cat="hpu_op")
    kernel = traces.kernel("gemm", ts=5, dur=10, correlation=1)
    run = opened(tmp_path, traces.host("aten::mm", ts=0, dur=4), call, odd, kernel)
    assert rows(run, "SELECT name, launch_id IS NULL FROM kernel") == [("gemm", False)]


@pytest.mark.parametrize("args", [{"stream": 1}, {"correlation": 4}])
def test_what_only_looks_like_device_activity_fails_the_ledger(
    args: dict[str, int], tmp_path: Path
) -> None:
    odd = [
        on_track("op", ts=ts, dur=5, pid=3, tid=ts, cat="npu_thing", args=args) for ts in (0, 10)
    ]
    run = opened(tmp_path, HOST, *odd)
    note = (
        "events of category npu_thing that look like device activity and were not understood; "
        "all events of such categories that look like it"
    )
    assert rows(run, "SELECT value, note FROM ledger WHERE NOT ok") == [(2, note)]
    shown = output("info", tmp_path / "run.duckdb")
    assert "GPU activity not understood" in shown
    assert "device events not understood" in shown


def test_a_call_of_the_host_that_names_a_stream_is_no_activity(tmp_path: Path) -> None:
    call = traces.host("call", ts=0, dur=5, cat="my_api", device=0, stream=7, correlation=1)
    run = opened(tmp_path, HOST, call, traces.kernel(ts=10, dur=5, correlation=1))
    assert rows(run, "SELECT name FROM kernel") == [("nvjet_sm90_gemm",)]
    assert rows(run, "SELECT name FROM launch") == [("call",)]
    assert failed(run) == []


def test_operators_of_a_trace_without_a_gpu_are_in_the_order_of_host_time(tmp_path: Path) -> None:
    times = {"aten::add": 5, "aten::mm": 50, "aten::relu": 20}
    events = [
        traces.host(name, ts=100 * place, dur=dur)
        for place, (name, dur) in enumerate(times.items())
    ]
    listed = opened(tmp_path, *events).query("ops.top").rows()
    assert [(row["name"], row["host_ns"]) for row in listed] == [
        ("aten::mm", 50_000), ("aten::relu", 20_000), ("aten::add", 5_000),
    ]  # fmt: skip


def test_negative_durations_make_no_percentage_negative(tmp_path: Path) -> None:
    first, second = (dict[str, Any](**{"External id": number}) for number in (1, 2))
    run = opened(
        tmp_path,
        traces.host("aten::mm", ts=0, dur=-5, **first),
        traces.host("aten::add", ts=1, dur=5, **second),
        traces.kernel("gemm", ts=0, dur=-20, **first),
        traces.kernel("nvjet_gemm", ts=5, dur=10),
        traces.all_reduce(ts=20, dur=10, ranks=[0, 1]),
        traces.all_reduce(ts=40, dur=-5, ranks=[0, 1]),
    )
    shares = {
        name: [row[column] for row in run.query(name).rows()]
        for name, column in {
            "kernels.top": "share_pct", "kernels.by_category": "share_pct", "ops.top": "share_pct",
            "comm.summary": "step_pct", "comm.exposed": "exposed_pct",
        }.items()
    }  # fmt: skip
    assert all(0 <= share <= 100 for listed in shares.values() for share in listed if share)
    assert sorted(shares["kernels.by_category"]) == [50, 50]
    assert shares["comm.exposed"] == [100]
    assert "negative durations" in failed(run)


@pytest.mark.parametrize(("name", "shown"), [("", None), ("  ", None), ("MI300X", "MI300X")])
def test_a_device_without_a_name_has_none(name: str, shown: str | None, tmp_path: Path) -> None:
    devices = [{"id": 0, "name": name}]
    path = traces.write(tmp_path / "t.json", traces.kernel(ts=0, dur=5), deviceProperties=devices)
    run = traceql.open(traceql.load(path, tmp_path / "run.duckdb").database)
    assert rows(run, "SELECT device_name FROM trace") == [(shown,)]
    listed = [row["value"] for row in run.query("overview.recording") if row["fact"] == "devices"]
    assert [value.split()[-1] for value in listed] == ([name] if shown else [])
