"""Ascend profiles in words: waiting, causes of gaps, folders, several ranks, and files beside."""

import json
from pathlib import Path
from typing import Any

import ascend_like
import pytest
from ascend_like import call, frequency, operation, operator, overlap, part, task

import traceql
from traceql.present.ui.trace_file import trace_processor_input
from traceql.readers.formats.ascend.read import Device, read_ascend

DIALECT_ROWS = "SELECT DISTINCT dialect, format, reader FROM trace"


def loaded(path: Path, target: Path) -> traceql.Trace:
    traceql.load(path, target)
    return traceql.Trace(target)


def values(trace: traceql.Trace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql).rows()]


def written(folder: Path, *events: ascend_like.Event, **more: Any) -> Path:
    ascend_like.write(folder / "in" / "w_1_2_ascend_pt", *events, **more)
    return folder / "in"


ONE = (
    call(ts=0, dur=50, connection=1),
    task("aclnnMm_MatMulCommon_MatMulV2", ts=100, dur=100, connection=1),
    call(ts=60, dur=40, connection=2),
    # The stream waits for an event in 400 of the 500 ns before its next task.
    task("EVENT_WAIT", ts=250, dur=400, kind="EVENT_WAIT_SQE", connection=7),
    task("aclnnAdd_AddAiCore_Add", ts=700, dur=100, connection=2),
    call("AscendCL@hcom_allReduce_", ts=200, dur=40, connection=3, level="acl"),
    operation("hcom_allReduce__123_0_1", ts=1000, dur=1000, connection=3),
    # Two planes: moves cover [1700, 1900) and [1950, 2000), together 250 ns.
    part("Notify_Wait", ts=1000, dur=700, peer=2, plane=0),
    part("Notify_Wait", ts=1000, dur=300, peer=1, plane=1),
    part("Memcpy", ts=1700, dur=150, peer=2, plane=0),
    part("Reduce_Inline", ts=1800, dur=100, peer=1, plane=1),
    part("Memcpy", ts=1950, dur=50, peer=3, plane=1),
    part("Notify_Record", ts=1999, dur=0.02, peer=0, plane=1),
    frequency(1800, ts=100),
    overlap("Computing", ts=100, dur=100),
    overlap("Computing", ts=700, dur=100),
)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> traceql.Trace:
    folder = tmp_path_factory.mktemp("ascend")
    return loaded(written(folder, *ONE), folder / "run.duckdb")


@pytest.mark.slow
def test_a_folder_of_a_rank_is_recognised(one: traceql.Trace) -> None:
    assert values(one, DIALECT_ROWS) == [("ascend", "ascend json", "ascend")]
    assert values(one, "SELECT check_name FROM ledger WHERE ok IS FALSE") == []


@pytest.mark.slow
def test_waiting_is_what_no_plane_moves(one: traceql.Trace) -> None:
    columns = "op, wait_ns, transfer_ns, wait_source, late_place, group_size, bytes"
    assert values(one, f"SELECT {columns} FROM collective") == [
        ("all_reduce", 750, 250, "planes", 2, 4, 4096 * 2)
    ]
    (peer,) = one.run("comm.peers").rows()
    assert (peer["late_place"], peer["operations"], peer["longest_ns"]) == (2, 1, 700)


def test_a_wait_for_an_event_is_a_dependency(one: traceql.Trace) -> None:
    found = values(one, "SELECT dur, cause FROM gap ORDER BY ts")
    assert found == [(500, "dependency"), (200, "launch")]


@pytest.mark.slow
def test_an_operation_over_rdma_has_no_wait_time(tmp_path: Path) -> None:
    rdma = [
        operation("hcom_allReduce__1_0_1", ts=0, dur=1000, connection=3, rank_size=16),
        part("RDMASend", ts=10, dur=20, peer=1, transport="RDMA"),
        part("Memcpy", ts=40, dur=20, peer=2),
    ]
    with loaded(written(tmp_path, *rdma), tmp_path / "run.duckdb") as trace:
        found = values(trace, "SELECT wait_ns, wait_source, group_size FROM collective")
    assert found == [(None, None, 16)]


@pytest.mark.slow
def test_ranks_of_a_folder_are_matched_if_all_are_there(tmp_path: Path) -> None:
    """Both ranks of two: the late one's arrival counts, not the planes."""
    document: dict[str, Any] = {
        "step1": {"p2p": {}, "collective": {"hcom_allReduce__1_0_1@77": {}}}
    }
    for rank, begun in ((0, 1000), (1, 1600)):
        events = (
            task("aclnnAdd_AddAiCore_Add", ts=0, dur=100),
            operation("hcom_allReduce__1_0_1", ts=begun, dur=2000 - begun, rank_size=2),
            part("Memcpy", ts=1900, dur=50, peer=1 - rank),
        )
        ascend_like.write(
            tmp_path / "in" / f"r{rank}_ascend_pt",
            *events,
            rank=str(rank),
            distributed={"rank": rank, "world_size": 2},
            files={"communication.json": json.dumps(document)},
        )
    with loaded(tmp_path / "in", tmp_path / "run.duckdb") as trace:
        found = values(trace, "SELECT rank, wait_ns, wait_source FROM collective ORDER BY rank")
        ranks = values(trace, "SELECT rank, world_size FROM trace ORDER BY rank")
    assert found == [(0, 600, "ranks"), (1, 0, "ranks")]
    assert ranks == [(0, 2), (1, 2)]


@pytest.mark.slow
def test_level_0_has_steps_by_operators_and_says_what_is_missing(tmp_path: Path) -> None:
    arrow = {"name": "torch_to_npu", "cat": "async_npu", "id": 7, "bp": "e"}
    start = {"ph": "s", "pid": 100, "tid": ascend_like.HOST_THREAD, "ts": ascend_like.us(20)}
    finish = {"ph": "f", "pid": 3201, "tid": 2, "ts": ascend_like.us(500)}
    events = (
        operator("ProfilerStep#3", ts=0, dur=900),
        operator("aten::add", ts=10, dur=100),
        arrow | start,
        task("Add1", ts=500, dur=100),
        arrow | finish,
    )
    with loaded(written(tmp_path, *events, rank=-1), tmp_path / "run.duckdb") as trace:
        assert values(trace, "SELECT step_id, launch_id, category FROM kernel") == [
            (0, None, "elementwise")
        ]
        assert values(trace, "SELECT ok FROM ledger WHERE check_name = 'calls of CANN'") == [
            (None,)
        ]
        assert values(trace, "SELECT rank FROM trace") == [(0,)]


@pytest.mark.slow
def test_kernel_details_tell_the_type_where_the_name_does_not(tmp_path: Path) -> None:
    head = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Num,Input Shapes"
    row = f'custom_17,MatMulV3,AI_CORE,{ascend_like.us(100)}\t,0.1,24,"""8,16;16,4"""'
    other = f"other,Add,AI_CORE,{ascend_like.us(999)}\t,0.1,1,N/A"
    files = {"kernel_details.csv": "\n".join([head, row, other, "damaged"])}
    events = (task("custom_17", ts=100, dur=100), task("custom_17", ts=300, dur=100))
    with loaded(written(tmp_path, *events, files=files), tmp_path / "run.duckdb") as trace:
        args = values(trace, "SELECT args ->> ['Type', 'Block Dim', 'Input Shapes'] FROM slice")
        categories = values(trace, "SELECT DISTINCT category FROM kernel")
        check = values(
            trace, "SELECT value, total, ok FROM ledger WHERE check_name = 'kernel_details.csv'"
        )
    assert args == [(["MatMulV3", "24", "8,16;16,4"],), ([None, None, None],)]
    assert categories == [("gemm",)]
    assert check == [(1, 3, None)]


@pytest.mark.slow
def test_the_text_form_is_read_where_a_db_is_beside_it(tmp_path: Path) -> None:
    folder = written(tmp_path, task("Add", ts=0, dur=5))
    (folder / "w_1_2_ascend_pt/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db").touch()
    with loaded(folder, tmp_path / "run.duckdb") as trace:
        found = values(trace, "SELECT ok FROM ledger WHERE check_name = 'other traces of the rank'")
    assert found == [(None,)]


@pytest.mark.slow
def test_tasks_of_unknown_types_are_told_and_kept(tmp_path: Path) -> None:
    events = (
        task("aclnnMm_MatMulCommon_MatMulV2", ts=100, dur=100),
        task("WaitAll", ts=250, dur=400, kind="NOTIFY_WAIT_SQE"),
        task("Dance", ts=700, dur=100, kind="QUANTUM_CORE"),
    )
    with loaded(written(tmp_path, *events), tmp_path / "run.duckdb") as trace:
        assert values(
            trace,
            "SELECT value, total, ok, contains(note, '''QUANTUM_CORE'' 1') FROM ledger "
            "WHERE check_name = 'tasks of unknown type'",
        ) == [(1, 3, False, True)]
        assert values(trace, "SELECT dur FROM slice WHERE name = 'Dance'") == [(100,)]
        assert values(trace, "SELECT name FROM kernel") == [("aclnnMm_MatMulCommon_MatMulV2",)]


def two_devices(folder: Path) -> Path:
    """Streams of the same number, on two devices; a thread of the host starts tasks on each."""
    zero = (
        call(ts=0, dur=50, connection=1),
        task("aclnnMm_MatMulCommon_MatMulV2", ts=100, dur=100, connection=1),
        frequency(1800, ts=100),
    )
    one = (
        call(ts=10, dur=50, connection=2, tid=102),
        task("aclnnAdd_AddAiCore_Add", ts=120, dur=300, connection=2),
        task("aclnnAdd_AddAiCore_Add", ts=720, dur=300, connection=3),
    )
    trace = ascend_like.write(folder / "w_1_2_ascend_pt", *zero, rank=5)
    of_one = [
        event | {"pid": event["pid"] + (0 if event["pid"] == 3200 else 1000)}
        for event in ascend_like.named(one, "NPU 4")
    ]
    trace.write_text(json.dumps(json.loads(trace.read_text()) + of_one))
    return trace


@pytest.mark.slow
def test_devices_of_one_file_are_ranks_of_their_own(tmp_path: Path) -> None:
    two_devices(tmp_path / "in")
    with loaded(tmp_path / "in", tmp_path / "run.duckdb") as trace_of_both:
        found = values(
            trace_of_both,
            "SELECT rank, device, stream, COUNT(*), SUM(dur), COUNT(launch_id) FROM kernel "
            "GROUP BY ALL ORDER BY rank",
        )
        calls = values(trace_of_both, "SELECT rank, tid FROM launch ORDER BY rank")
        gaps = values(trace_of_both, "SELECT rank, dur FROM gap")
        failed = values(trace_of_both, "SELECT check_name FROM ledger WHERE ok IS FALSE")
        told = values(
            trace_of_both, "SELECT value FROM ledger WHERE check_name = 'devices in the file'"
        )
        together = values(
            trace_of_both,
            "SELECT rank, value, total, ok FROM ledger WHERE check_name = 'kernels of all devices'",
        )
        fed = [b"".join(trace_processor_input(trace_of_both, rank) or ()) for rank in (0, 1)]
    assert found == [(0, 3, 2, 1, 100, 1), (1, 4, 2, 2, 600, 1)]
    assert calls == [(0, 101), (1, 102)]
    assert gaps == [(1, 300)]
    assert (failed, told) == ([], [(2,), (2,)])
    assert together == [(1, 3, 3, True)]  # with the last of them
    assert [text.count(b"AddAiCore") for text in fed] == [0, 2]


def test_a_kernel_that_no_device_has_fails_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Device.kept

    def without_the_last(part: Device, batches: Any) -> Any:
        for events in whole(part, batches):
            yield [event for event in events if ascend_like.us(720) not in bytes(event.ts).decode()]

    monkeypatch.setattr(Device, "kept", without_the_last)
    *_, last = read_ascend(two_devices(tmp_path), trace_processor=None)
    (row,) = [
        row
        for row in last.tables["load_check"].to_pylist()
        if row["check_name"] == "kernels of all devices"
    ]
    assert (row["value"], row["total"], row["ok"]) == (2, 3, False)
