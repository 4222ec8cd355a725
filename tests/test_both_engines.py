"""The bundled engine and one behind the official API's HTTP path give the same databases."""

import json
from pathlib import Path
from typing import Any

import pytest
import traces
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

import traceql
from traceql.readers.trace_processor import module_cache

pytestmark = pytest.mark.slow

PID, TID = 100, 101
MAIN, STREAM, SECOND_STREAM, WORKER = 1, 2, 3, 4  # tracks
SECONDS = 1_790_857_026_000_000_000  # ns: large enough to lose digits in a double


@pytest.fixture(autouse=True)
def no_choice_of_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(module_cache.TRACE_PROCESSOR_VARIABLE, raising=False)


_ARGUMENTS: list[dict[str, Any] | None] = [
    {"External id": 1, "ratio": 0.5, "note": "größe", "eager": True},
    {"correlation": 5, "shape": [2, 3]},
    {"correlation": 5, "device": 0, "stream": 7, "grid": [8, 1, 1]},
    {"device": 0, "stream": 7},
    None,
]


def native(folder: Path) -> Path:
    """Nested slices with annotations, kernels that overlap on tracks of their own, an arrow."""
    thread = {"pid": PID, "tid": TID, "thread_name": "main"}
    packets = [
        TracePacket(track_descriptor=described)
        for described in (
            {"uuid": 9, "process": {"pid": PID, "process_name": "worker"}},
            {"uuid": MAIN, "parent_uuid": 9, "name": "main", "thread": thread},
            {"uuid": STREAM, "parent_uuid": 9, "name": "stream 7"},
            {"uuid": SECOND_STREAM, "parent_uuid": 9, "name": "stream 7 overlap"},
            {"uuid": WORKER, "name": "alone"},
        )
    ]
    step, call, gemm, other, _ = _ARGUMENTS
    packets += [
        begin(0, MAIN, "execute_context_1(8)_generation_0(0)", "user_annotation", step),
        begin(1000, MAIN, "cudaLaunchKernel", "cuda_runtime", call, flow_ids=[77]),
        event(1500, MAIN, TrackEvent.TYPE_SLICE_END),
        event(3000, MAIN, TrackEvent.TYPE_SLICE_END),
        begin(2001, STREAM, "nvjet_sm90_gemm", "kernel", gemm, terminating_flow_ids=[77]),
        begin(2005, SECOND_STREAM, "my_kernel", "kernel", other),
        event(2006, STREAM, TrackEvent.TYPE_SLICE_END),
        event(2012, SECOND_STREAM, TrackEvent.TYPE_SLICE_END),
        event(2900, WORKER, TrackEvent.TYPE_SLICE_BEGIN, name="unfinished"),
    ]
    path = folder / "rank3.pftrace"
    path.write_bytes(Trace(packet=packets).SerializeToString())
    return path


def event(ts: int, track: int, kind: Any, **content: Any) -> TracePacket:
    happened = TrackEvent(type=kind, track_uuid=track, **content)
    return TracePacket(timestamp=SECONDS + ts, trusted_packet_sequence_id=1, track_event=happened)


def begin(
    ts: int, track: int, name: str, category: str, args: dict[str, Any] | None, **flows: list[int]
) -> TracePacket:
    annotations = [{"name": key} | annotation(value) for key, value in (args or {}).items()]
    about = {"name": name, "categories": [category], "debug_annotations": annotations}
    return event(ts, track, TrackEvent.TYPE_SLICE_BEGIN, **about, **flows)


def annotation(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"array_values": [annotation(element) for element in value]}
    kinds = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
    return {kinds[type(value)]: value}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> traceql.Run:
    folder = tmp_path_factory.mktemp("native")
    traceql.load([native(folder)], folder / "a.duckdb")
    return traceql.Run(folder / "a.duckdb")


def found(trace: traceql.Run, sql: str) -> list[tuple[Any, ...]]:
    return trace.select(sql).fetchall()


def test_native_slices_keep_time_place_and_nesting(trace: traceql.Run) -> None:
    slices = """
        SELECT
            slice.rank, cat, name, ts, dur, slice.pid, slice.tid, parent_id, depth, external_id,
            correlation, process_name, thread_name
        FROM slice JOIN track ON track_id = track.id
        ORDER BY ts
    """
    name = "execute_context_1(8)_generation_0(0)"
    main, streams = (PID, TID), (PID, None)
    assert found(trace, slices) == [
        (3, "user_annotation", name, 0, 3000, *main, None, 0, 1, None, "worker", "main"),
        (3, "cuda_runtime", "cudaLaunchKernel", 1000, 500, *main, 0, 1, None, 5, "worker", "main"),
        (3, "kernel", "nvjet_sm90_gemm", 2001, 5, *streams, None, 0, None, 5, "worker", "stream 7"),
        (3, "kernel", "my_kernel", 2005, 7, *streams, None, 0, None, None, "worker",
         "stream 7 overlap"),
        (3, None, "unfinished", 2900, 100, None, None, None, 0, None, None, None, "alone"),
    ]  # fmt: skip
    assert found(trace, "SELECT base_time_ns, format FROM trace") == [(SECONDS, "perfetto")]


def test_native_annotations_are_arguments(trace: traceql.Run) -> None:
    args = found(trace, "SELECT args FROM slice ORDER BY ts")
    assert [text and json.loads(text) for (text,) in args] == _ARGUMENTS


def test_native_kernels_have_their_launch_and_arrow(trace: traceql.Run) -> None:
    assert found(
        trace,
        """
        SELECT
            kernel.name, kernel.ts, kernel.dur, kernel.device, stream, kernel.category, grid,
            launch.name AS call, step.phase
        FROM kernel
        LEFT JOIN launch ON launch_id = launch.id
        LEFT JOIN step ON kernel.step_id = step.step_id
        ORDER BY kernel.ts
        """,
    ) == [
        ("nvjet_sm90_gemm", 2001, 5, 0, 7, "gemm", [8, 1, 1], "cudaLaunchKernel", "prefill"),
        ("my_kernel", 2005, 7, 0, 7, "other", None, None, None),
    ]
    arrows = """
        SELECT begin_slice.name AS out_name, end_slice.name AS in_name
        FROM flow
        JOIN slice AS begin_slice ON slice_out = begin_slice.id
        JOIN slice AS end_slice ON slice_in = end_slice.id
    """
    assert found(trace, arrows) == [("cudaLaunchKernel", "nvjet_sm90_gemm")]

    checks = "SELECT value, total, ok FROM ledger WHERE check_name = 'slices without an end'"
    assert found(trace, checks) == [(1, 5, None)]
    (row,) = trace.query("time.breakdown").rows()
    assert (row["window_ns"], row["computing_ns"], row["idle_ns"]) == (11, 11, 0)


def test_a_native_trace_cut_off_within_a_packet_is_refused(tmp_path: Path) -> None:
    whole = native(tmp_path).read_bytes()
    cut = tmp_path / "cut.pftrace"
    cut.write_bytes(whole[:-7])
    with pytest.raises(traceql.TraceqlError, match="truncated within a packet"):
        traceql.load(cut, tmp_path / "cut.duckdb")


def test_json_called_native_is_read_as_json(tmp_path: Path) -> None:
    events = [traces.kernel(ts=1.001, dur=2, stream=0), traces.kernel(ts=9, dur=2, stream=7)]
    path = traces.write(tmp_path / "rank0.pftrace", *events)
    with traceql.open(traceql.load(path, tmp_path / "x.duckdb").database) as trace:
        assert found(trace, "SELECT stream, ts FROM kernel ORDER BY ts") == [(0, 0), (7, 7_999)]
        assert found(trace, "SELECT format FROM trace") == [("json",)]
