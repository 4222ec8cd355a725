"""Operators by shape, and kernels below annotations, against sums over the events of the file."""

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import traces
from databases import ROOT
from shared_files import shared_file
from unions import length, union

import traceql

DDP = ROOT.parent / "shared" / "training" / "ddp-mem" / "rank0.pt.trace.json.gz"
_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_CALLS = ("cuda_runtime", "cuda_driver")


@pytest.fixture(scope="module")
def ddp() -> tuple[traceql.Run, list[dict[str, Any]]]:
    """A rank of a training, and the events in its file, with times in ns."""
    if not DDP.is_file():
        pytest.skip("no shared recording of a training")
    database = shared_file("ddp-mem-rank0.duckdb", lambda made: traceql.load(DDP, made))
    events = json.loads(gzip.decompress(DDP.read_bytes()), parse_float=Decimal)["traceEvents"]
    found = [e for e in events if e.get("ph") == "X" and "dur" in e]
    for e in found:
        e["begin"], e["ns"] = round(Decimal(e["ts"]) * 1000), round(Decimal(e["dur"]) * 1000)
    return traceql.open(database), found


def test_operators_by_shape(ddp: tuple[traceql.Run, list[dict[str, Any]]]) -> None:
    run, events = ddp
    rows = run.run("ops.by_shape", limit=0).rows()
    found = {(r["name"], r["shapes"], r["types"]): r for r in rows}
    assert len(found) == len(rows)
    calls, host, gpu = (defaultdict[Any, int](int) for _ in range(3))
    keys = {}
    for e in (e for e in events if e["cat"] == "cpu_op"):
        texts = (e["args"].get(word) for word in ("Input Dims", "Input type"))
        key = (
            e["name"],
            *(None if t is None else json.dumps(t, separators=(",", ":")) for t in texts),
        )
        keys[e["args"]["External id"]] = key
        calls[key] += 1
        host[key] += e["ns"]
    on_gpu = [e for e in events if e["cat"] in _GPU]
    for e in on_gpu:
        gpu[keys.get(e["args"].get("External id"))] += e["ns"]
    by_call = gpu.pop(None, 0)
    assert {key: (r["calls"], r["host_ns"]) for key, r in found.items() if key in calls} == {
        key: (calls[key], host[key]) for key in calls
    }
    assert {key: r["gpu_ns"] for key, r in found.items() if r["gpu_ns"] and key in calls} == {
        key: ns for key, ns in gpu.items() if ns
    }
    others = [r for key, r in found.items() if key not in calls]
    assert all(r["name"].startswith("(") for r in others)
    assert sum(r["gpu_ns"] for r in others) == by_call
    assert sum(r["share_pct"] for r in rows) == pytest.approx(100)
    assert len({key for key in calls if key[0] == "aten::mm"}) > 3
    only = run.run("ops.by_shape", limit=0, pattern="aten::m%").rows()
    assert {r["name"] for r in only} == {key[0] for key in calls if key[0].startswith("aten::m")}


def test_kernels_below_annotations(ddp: tuple[traceql.Run, list[dict[str, Any]]]) -> None:
    run, events = ddp
    calls = {
        e["args"]["correlation"]: e
        for e in events
        if e["cat"] in _CALLS and "args" in e and "correlation" in e["args"]
    }
    below = defaultdict[tuple[str, int], list[dict[str, Any]]](list)
    ranges = [e for e in events if e["cat"] == "user_annotation"]
    for kernel in (e for e in events if e["cat"] in _GPU):
        if call := calls.get(kernel["args"].get("correlation")):
            for number, one in enumerate(ranges):
                if (
                    one["tid"] == call["tid"]
                    and one["begin"] <= call["begin"] < one["begin"] + one["ns"]
                ):
                    below[one["name"], number].append(kernel)
    expected = {}
    for name in {name for name, _ in below}:
        each = [kernels for (of, _), kernels in below.items() if of == name]
        every = [k for kernels in each for k in kernels]
        expected[name] = (
            len(each), len(every), sum(k["ns"] for k in every),
            length(union([(k["begin"], k["begin"] + k["ns"]) for k in every])),
            sum(max(k["begin"] + k["ns"] for k in ks) - min(k["begin"] for k in ks) for ks in each),
        )  # fmt: skip
    rows = run.run("annotations.gpu", limit=0).rows()
    numbers = ("calls", "kernels", "gpu_ns", "busy_ns", "span_ns")
    launched = [r for r in rows if r["source"] == "launch"]
    assert {r["name"]: tuple(r[n] for n in numbers) for r in launched} == expected
    assert {r["kernel"] for r in rows} == {None}
    listed = run.run("annotations.gpu", limit=0, pattern="Optimizer.step%", by_kernel=True).rows()
    assert len(listed) > 1
    for quantity in ("kernels", "gpu_ns"):
        of_step = [r[quantity] for r in rows if r["name"].startswith("Optimizer.step")]
        assert sum(r[quantity] for r in listed) == sum(of_step)


def test_a_range_of_the_gpu_alone_owns_the_kernels_within_it(tmp_path: Path) -> None:
    """Where the host was not recorded; one stream's range has nothing of another stream."""

    def on_gpu(name: str, *, ts: float, dur: float, stream: int = 7) -> traces.Event:
        return traces.kernel(name, ts=ts, dur=dur, stream=stream, cat="gpu_user_annotation")

    run = traces.loaded(
        tmp_path,
        [
            on_gpu("decode", ts=10, dur=10),
            on_gpu("decode", ts=40, dur=5),
            on_gpu("empty", ts=60, dur=5),
            traces.kernel("before", ts=5, dur=2),
            traces.kernel("a", ts=10, dur=4),
            traces.kernel("a", ts=16, dur=4),
            traces.kernel("b", ts=12, dur=6, stream=8),
            traces.kernel("b", ts=41, dur=2),
            traces.kernel("after", ts=45, dur=1),
        ],
    )
    (row,) = run.run("annotations.gpu").rows()
    names = (
        "name",
        "kernel",
        "source",
        "calls",
        "kernels",
        "gpu_ns",
        "busy_ns",
        "span_ns",
        "host_ns",
    )
    assert tuple(row[n] for n in names) == (
        "decode", None, "gpu", 2, 3, 10_000, 10_000, 12_000, None,
    )  # fmt: skip
    rows = run.run("annotations.gpu", by_kernel=True).rows()
    assert [(r["kernel"], r["kernels"], r["gpu_ns"]) for r in rows] == [
        ("a", 2, 8000),
        ("b", 1, 2000),
    ]


def test_overlapping_kernels_below_a_range_are_busy_once(tmp_path: Path) -> None:
    run = traces.loaded(
        tmp_path,
        [
            traces.host("outer", ts=0, dur=100, cat="user_annotation"),
            traces.launch(ts=1, correlation=1),
            traces.launch(ts=3, correlation=2),
            traces.launch(ts=101, correlation=3),
            traces.kernel("a", ts=10, dur=10, correlation=1),
            traces.kernel("b", ts=15, dur=10, correlation=2, stream=8),
            traces.kernel("c", ts=110, dur=5, correlation=3),
        ],
    )
    (row,) = run.run("annotations.gpu").rows()
    assert (row["kernels"], row["gpu_ns"], row["busy_ns"], row["span_ns"]) == (
        2,
        20_000,
        15_000,
        15_000,
    )
