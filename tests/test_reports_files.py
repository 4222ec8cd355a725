"""Files that public reports show: native traces by any name, and files that are no traces."""

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest
import traces
from cupti_pftrace import write_cupti
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from report_inputs import Event, border, ledger, loaded, report, rows
from rocpd_like import CALL, Record, Recorded
from rocprof_pftrace import write_pftrace

import traceql
from traceql.errors import NotATrace
from traceql.readers import registry
from traceql.readers.formats.perfetto.recognition import begins_like_a_trace
from traceql.util.protobuf_wire import DELIMITED, FIXED32, VARINT, tag, varint

# --- native traces by other names ----------------------------------------------------------------


def test_a_native_trace_of_a_report_by_its_name(tmp_path: Path) -> None:
    path = report("native-trace-by-name", "perfetto-trace-1234.proto")
    for given_path in (path, path.parent):
        run = loaded(given_path, tmp_path)
        assert rows(run, "SELECT COUNT(*), SUM(dur), MAX(ts + dur) - MIN(ts) FROM kernel") == [
            (40, 600_000, 795_000)
        ]


def native(folder: Path) -> bytes:
    """A small native trace."""
    process = Recorded(1, (Record(CALL, "hipLaunchKernel", 1000, 2000, tid=1, correlation=1),))
    return write_pftrace(folder / "written" / "x.pftrace", process).read_bytes()


@pytest.mark.parametrize(
    "name",
    ["t.proto", "trace", "run.perfetto", "a.bin", "b.trace.1", "c.pb", "d.proto.gz", "x.json"],
)
def test_a_native_trace_has_any_name(name: str, tmp_path: Path) -> None:
    text = native(tmp_path)
    path = tmp_path / "folder" / name
    path.parent.mkdir()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    (tmp_path / "folder" / "notes").write_text("\n\nnotes about this trace")
    assert rows(loaded(path, tmp_path), "SELECT COUNT(*) FROM slice") == [(1,)]
    (tmp_path / "run.duckdb").unlink()
    assert rows(loaded(path.parent, tmp_path), "SELECT COUNT(*) FROM slice") == [(1,)]


def message(*fields: bytes) -> bytes:
    """A protobuf message in field 1 of another."""
    content = b"".join(fields)
    return tag(1, DELIMITED) + varint(len(content)) + content


def field(number: int, content: bytes) -> bytes:
    return tag(number, DELIMITED) + varint(len(content)) + content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\nimport os\nprint(os.name)\n",
        b'syntax = "proto3";\n',
        bytes(4096),
        message(field(1, b"x"), field(2, b"Placeholder")) * 3,  # TensorFlow's graph
        message(tag(1, VARINT) + b"\1", field(2, b"/host:CPU")),  # its profile
        message(field(1, "▁the".encode()), tag(2, FIXED32) + bytes(4)) * 9,  # a tokenizer
        message(field(1, b"foo.proto"), field(2, b"package")),  # descriptors of messages
    ],
)
def test_other_files_are_no_native_traces(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(content)
    assert not begins_like_a_trace(path)
    with pytest.raises(traceql.TraceqlError, match="no traces in this folder"):
        traceql.load(tmp_path, tmp_path / "run.duckdb")


def test_the_database_of_a_recording_comes_before_its_native_trace(tmp_path: Path) -> None:
    (tmp_path / "perfetto-trace-7.proto").write_bytes(native(tmp_path))
    assert not registry.is_superseded(tmp_path / "perfetto-trace-7.proto")
    (tmp_path / "rocpd-7.db").touch()
    assert registry.is_superseded(tmp_path / "perfetto-trace-7.proto")


# --- PyTorch's own native recorder (synthetic: there is no recording of it) -----------------------

_LAUNCH: dict[str, Any] = {
    "registers per thread": 32,
    "grid": [4, 1, 1],
    "block": [128, 1, 1],
    "context": 1,
}


def recorder_events() -> list[Event]:
    """A recording in both forms: calls, kernels back to back, copies, annotations, and stacks."""
    shapes: dict[str, Any] = {"External id": 1, "Input Dims": [[2, 3], []]}
    backward: dict[str, Any] = {"External id": 2}
    to_gpu: dict[str, Any] = {"copy kind": "HtoD"}
    kind: dict[str, Any] = {"memory kind": 3}
    node: dict[str, Any] = {"graph node id": 4}
    found = [
        traces.host("aten::mm", ts=0, dur=20, **shapes),
        traces.host("MmBackward0", ts=30, dur=5, **backward),
        traces.host("train.py(1): f", ts=0, dur=400, cat="python_function", **{"Python id": 1}),
        traces.host("fwd", ts=0, dur=350, cat="user_annotation", **{"External id": 77}),
        traces.launch(ts=5.5, dur=3.001, correlation=1, cbid=211),
        traces.launch(ts=9, correlation=2, name="cuLaunchKernel", cbid=652)
        | {"cat": "cuda_driver"},
        traces.kernel("gemm", ts=40, dur=10, correlation=1, **_LAUNCH),
        traces.kernel("gemm2", ts=50, dur=0.5, correlation=2, **_LAUNCH),
        traces.kernel("late", ts=50.5, dur=0.5, correlation=3, **node, **_LAUNCH),
        traces.kernel("Memcpy", cat="gpu_memcpy", ts=60, dur=5, bytes=7, **to_gpu),
        traces.kernel("Memset", cat="gpu_memset", ts=70, dur=5, bytes=8, **kind),
        traces.kernel("Event Sync", cat="cuda_sync", ts=80, dur=2, cuda_sync_kind="Event Sync"),
        border("X", "fwd", ts=39.999, dur=20, tid=7)
        | {"cat": "gpu_user_annotation", "pid": 0, "args": {"External id": 77}},
        border("X", "Buffer Flush", ts=1, dur=2, tid=0) | {"cat": "overhead", "pid": -1},
    ]
    return [event | {"args": event.get("args", {})} for event in found]


def test_a_trace_of_pytorchs_recorder_has_the_tables_of_its_json(tmp_path: Path) -> None:
    events = recorder_events()
    arrows = [
        traces.flow(phase, ts=event["ts"], pid=event["pid"], tid=event["tid"], number=number)
        for phase, event, number in (
            *(("s", event, event["args"]["correlation"]) for event in events[4:6]),
            *(("f", event, event["args"]["correlation"]) for event in events[6:9]),
        )
    ]
    as_json = traces.write(tmp_path / "json" / "x.json", *events, *arrows)
    pftrace = write_cupti(tmp_path / "x.pftrace", *events)
    runs = [loaded(as_json, tmp_path / "json"), loaded(pftrace, tmp_path)]
    for sql in (
        "SELECT name, cat, ts, dur, pid, tid, depth, external_id, correlation FROM slice",
        "SELECT name, device, stream, ts, dur, kind, category, grid, block, bytes FROM kernel",
        "SELECT name, ts, dur, tid, correlation FROM launch",
        "SELECT name, json_keys(args) FROM slice WHERE args <> '{}'",
        "SELECT name, args ->> '$.\"Input Dims\"' FROM slice WHERE name = 'aten::mm'",
        "SELECT a.name, b.name FROM flow JOIN slice a ON a.id = slice_out "
        "JOIN slice b ON b.id = slice_in",
        "SELECT check_name FROM ledger WHERE NOT ok",
    ):
        wanted, got = (rows(run, f"{sql} ORDER BY ALL") for run in runs)
        assert got == wanted, sql
        assert got
    assert ledger(runs[1], "categories from arguments") == (14, 14, None)


def test_render_stages_fail_the_ledger(tmp_path: Path) -> None:
    """Later versions of the recorder write kernels as such, which are no rows of kernel."""
    path = write_cupti(tmp_path / "x.pftrace", *recorder_events())
    stage = Trace()
    stage.packet.add(timestamp=1, gpu_render_stage_event={"event_id": 1, "duration": 5})
    path.write_bytes(path.read_bytes() + stage.SerializeToString())
    assert ledger(loaded(path, tmp_path), "GPU render stages") == (0, 1, False)


# --- files that are no traces --------------------------------------------------------------------

NO_TRACES: dict[str, tuple[bytes, str]] = {
    "utf16.json": ("\ufeff[]".encode("utf-16-le"), "save it as UTF-8"),
    "twice.json.gz": (gzip.compress(gzip.compress(b"[]")), "compressed twice"),
    "timeline.json": (b"[[1000, 2000], [[0, 10], [0, 20]]]", "memory timeline of PyTorch"),
    "empty.json": (b"[[], []]", "memory timeline of PyTorch"),
    "raw.json": (b"[[-1, 1, 4096, 0], [120, 2, 4096, 0]]", "memory timeline of PyTorch"),
    "page.html": (b"<html><head><title>GPU Memory Timeline HTML</title>", "memory timeline"),
    "snapshot.json": (b'{"segments": [], "device_traces": [[]]}', "snapshot of PyTorch's GPU"),
    "snapshot.pickle": (pickle.dumps({"segments": [], "device_traces": []}), "snapshot of PyTorch"),
    "x.pickle": (pickle.dumps([1]), "pickle of Python"),
    "et.json": (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "ExecutionTraceObserver"),
    "netlog.json": (b'{"constants": {}, "events": []}', "network log of Chrome"),
    "a.har": (b'{"log": {"version": "1.2", "entries": []}}', "HAR"),
    "events.out.tfevents.1": (
        (24).to_bytes(8, "little") + bytes(4) + b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2",
        "TensorBoard",
    ),
    "model.safetensors": ((64).to_bytes(8, "little") + b'{"__metadata__":{}}', "weights"),
    "old.qdrep": (bytes(range(1, 99)), "nsys export"),
    "stacks.txt": (b"train.py(3): f;linear.py(9): g 120\n", "export_stacks"),
    "tree.hatchet": (b'[{"children": [], "frame": {"name": "x"}, "metrics": {}}]', "Proton"),
    "numbers.json": (b"[1, 2, 3]", "JSON list of numbers.*export_chrome_trace"),
    "texts.json": (b'["a", "b"]', "JSON list of texts"),
    "values.json": (b'[null, {"ph": "X"}]', "JSON list of values"),
    "objects.json": (b'[{"latency": 1}, {"latency": 2}]', "JSON list of other objects"),
    "p.xplane.pb": (message(field(2, b"/device:GPU:0")), "XPlane"),
}


@pytest.mark.parametrize("name", NO_TRACES)
def test_a_file_that_is_no_trace_is_called_by_its_name(name: str, tmp_path: Path) -> None:
    content, words = NO_TRACES[name]
    path = tmp_path / name
    path.write_bytes(content)
    for read in (traceql.load, lambda *of: traceql.load(*of, reader="stream")):
        with pytest.raises(NotATrace, match=words) as raised:
            read(path, tmp_path / "run.duckdb")
        assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == [path]


def test_the_memory_timeline_of_a_report(tmp_path: Path) -> None:
    path = report("not-a-trace", "memory-timeline.json")
    with pytest.raises(NotATrace, match=r"memory timeline of PyTorch .*export_chrome_trace"):
        traceql.load(path, tmp_path / "run.duckdb")


def test_a_memory_timeline_beside_a_trace_is_skipped(tmp_path: Path) -> None:
    traces.write(tmp_path / "a" / "rank0.json", traces.kernel(ts=1, dur=2))
    (tmp_path / "a" / "memory.json").write_bytes(NO_TRACES["timeline.json"][0])
    assert rows(loaded(tmp_path / "a", tmp_path), "SELECT COUNT(*) FROM trace") == [(1,)]
