"""The bundled engine and one behind the official API's HTTP path give the same databases."""

import json
from pathlib import Path
from typing import Any

import pytest
import traces
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

import traceql
from traceql.readers.trace_processor import module_cache

pytestmark = pytest.mark.slow

PID, TID = 100, 101
MAIN, STREAM, SECOND_STREAM, WORKER = 1, 2, 3, 4  # tracks
SECONDS = 1_790_857_026_000_000_000  # ns: large enough to lose digits in a double


@pytest.fixture(autouse=True)
def no_choice_of_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(module_cache.TRACE_PROCESSOR_VARIABLE, raising=False)


def native(folder: Path) -> Path:
    """Nested slices with annotations, kernels that overlap on tracks of their own, an arrow."""
    builder = TraceProtoBuilder()
    process = builder.add_packet().track_descriptor
    process.uuid, process.process.pid, process.process.process_name = 9, PID, "worker"
    thread = builder.add_packet().track_descriptor
    thread.uuid, thread.parent_uuid, thread.name = MAIN, 9, "main"
    thread.thread.pid, thread.thread.tid, thread.thread.thread_name = PID, TID, "main"
    for uuid, name in ((STREAM, "stream 7"), (SECOND_STREAM, "stream 7 overlap")):
        stream = builder.add_packet().track_descriptor
        stream.uuid, stream.parent_uuid, stream.name = uuid, 9, name
    worker = builder.add_packet().track_descriptor
    worker.uuid, worker.name = WORKER, "alone"

    step = event(builder, 0, MAIN, "execute_context_1(8)_generation_0(0)", "user_annotation")
    annotate(step, {"External id": 1, "ratio": 0.5, "note": "größe", "eager": True})
    call = event(builder, 1000, MAIN, "cudaLaunchKernel", "cuda_runtime", flow=[77])
    annotate(call, {"correlation": 5, "shape": [2, 3]})
    end(builder, 1500, MAIN)
    end(builder, 3000, MAIN)
    gemm = event(builder, 2001, STREAM, "nvjet_sm90_gemm", "kernel", ended_flow=[77])
    annotate(gemm, {"correlation": 5, "device": 0, "stream": 7, "grid": [8, 1, 1]})
    next_kernel = event(builder, 2005, SECOND_STREAM, "my_kernel", "kernel")
    annotate(next_kernel, {"device": 0, "stream": 7})
    end(builder, 2006, STREAM)
    end(builder, 2012, SECOND_STREAM)
    event(builder, 2900, WORKER, "unfinished", "")
    path = folder / "rank3.pftrace"
    path.write_bytes(builder.serialize())
    return path


def event(
    builder: TraceProtoBuilder,
    ts: int,
    track: int,
    name: str,
    category: str,
    *,
    flow: tuple[int, ...] | list[int] = (),
    ended_flow: tuple[int, ...] | list[int] = (),
) -> Any:
    """The beginning of a slice."""
    packet = builder.add_packet()
    packet.timestamp = SECONDS + ts
    packet.trusted_packet_sequence_id = 1
    begun = packet.track_event
    begun.type, begun.track_uuid, begun.name = TrackEvent.TYPE_SLICE_BEGIN, track, name
    if category:
        begun.categories.append(category)
    begun.flow_ids.extend(flow)
    begun.terminating_flow_ids.extend(ended_flow)
    return begun


def end(builder: TraceProtoBuilder, ts: int, track: int) -> None:
    packet = builder.add_packet()
    packet.timestamp = SECONDS + ts
    packet.trusted_packet_sequence_id = 1
    packet.track_event.type = TrackEvent.TYPE_SLICE_END
    packet.track_event.track_uuid = track


def annotate(begun: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        annotation = begun.debug_annotations.add()
        annotation.name = name
        set_value(annotation, value)


def set_value(annotation: Any, value: Any) -> None:
    match value:
        case list():
            for element in value:
                set_value(annotation.array_values.add(), element)
        case bool():
            annotation.bool_value = value
        case int():
            annotation.int_value = value
        case float():
            annotation.double_value = value
        case _:
            annotation.string_value = value


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> traceql.Trace:
    folder = tmp_path_factory.mktemp("native")
    traceql.load([native(folder)], folder / "a.duckdb")
    return traceql.Trace(folder / "a.duckdb")


def found(trace: traceql.Trace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql)]


def test_native_slices_keep_time_place_and_nesting(trace: traceql.Trace) -> None:
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


def test_native_annotations_are_arguments(trace: traceql.Trace) -> None:
    args = [
        text and json.loads(text) for (text,) in found(trace, "SELECT args FROM slice ORDER BY ts")
    ]
    assert args == [
        {"External id": 1, "ratio": 0.5, "note": "größe", "eager": True},
        {"correlation": 5, "shape": [2, 3]},
        {"correlation": 5, "device": 0, "stream": 7, "grid": [8, 1, 1]},
        {"device": 0, "stream": 7},
        None,
    ]


def test_native_kernels_have_their_launch_and_arrow(trace: traceql.Trace) -> None:
    assert found(
        trace,
        """
        SELECT
            kernel.name, kernel.ts, kernel.dur, device, stream, kernel.category, grid,
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


def test_native_ledger_tells_of_slices_without_an_end(trace: traceql.Trace) -> None:
    checks = """SELECT value, total, ok FROM ledger WHERE check_name = 'slices without an end'"""
    assert found(trace, checks) == [(1, 5, None)]


def test_native_kernels_that_overlap_count_once(trace: traceql.Trace) -> None:
    (row,) = trace.run("time.breakdown").rows()
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
        found = trace.sql("SELECT stream, ts FROM kernel ORDER BY ts").rows()
        assert found == [{"stream": 0, "ts": 0}, {"stream": 7, "ts": 7_999}]
        assert trace.sql("SELECT format FROM trace").rows() == [{"format": "json"}]
