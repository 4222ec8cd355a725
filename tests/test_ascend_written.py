"""Ascend profiles in words: waiting, causes of gaps, folders, several ranks, and files beside."""

import json
from pathlib import Path
from typing import Any

import ascend_db_like
import ascend_like
import pytest
from ascend_like import call, frequency, operation, operator, overlap, part, task, values

import traceql
from traceql.present.ui.trace_file import trace_processor_input


def written(folder: Path, *events: ascend_like.Event, **more: Any) -> Path:
    ascend_like.write(folder / "in" / "w_1_2_ascend_pt", *events, **more)
    return folder / "in"


def loaded(folder: Path, *events: ascend_like.Event, **more: Any) -> traceql.Trace:
    traceql.load(written(folder, *events, **more), folder / "run.duckdb")
    return traceql.Trace(folder / "run.duckdb")


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


@pytest.mark.slow
def test_waiting_is_what_no_plane_moves_and_a_wait_for_an_event_is_a_dependency(
    tmp_path: Path,
) -> None:
    columns = "op, wait_ns, transfer_ns, wait_source, late_place, group_size, bytes"
    with loaded(tmp_path, *ONE) as one:
        files = values(one, "SELECT DISTINCT dialect, format, reader FROM trace")
        assert files == [("ascend", "ascend json", "ascend")]
        assert values(one, "SELECT check_name FROM ledger WHERE ok IS FALSE") == []
        waits = values(one, f"SELECT {columns} FROM collective")
        assert waits == [("all_reduce", 750, 250, "planes", 2, 4, 4096 * 2)]
        (peer,) = one.run("comm.peers").rows()
        assert (peer["late_place"], peer["operations"], peer["longest_ns"]) == (2, 1, 700)
        gaps = values(one, "SELECT dur, cause FROM gap ORDER BY ts")
        assert gaps == [(500, "dependency"), (200, "launch")]


@pytest.mark.slow
def test_an_operation_over_rdma_has_no_wait_time(tmp_path: Path) -> None:
    rdma = [
        operation("hcom_allReduce__1_0_1", ts=0, dur=1000, connection=3, rank_size=16),
        part("RDMASend", ts=10, dur=20, peer=1, transport="RDMA"),
        part("Memcpy", ts=40, dur=20, peer=2),
    ]
    with loaded(tmp_path, *rdma) as trace:
        found = values(trace, "SELECT wait_ns, wait_source, group_size FROM collective")
    assert found == [(None, None, 16)]


@pytest.mark.slow
def test_ranks_of_a_folder_are_matched_if_all_are_there(tmp_path: Path) -> None:
    """Both ranks of two: the late one's arrival counts, not the planes."""
    document: Any = {"step1": {"p2p": {}, "collective": {"hcom_allReduce__1_0_1@77": {}}}}
    for rank, begun in ((0, 1000), (1, 1600)):
        ascend_like.write(
            tmp_path / "in" / f"r{rank}_ascend_pt",
            task("aclnnAdd_AddAiCore_Add", ts=0, dur=100),
            operation("hcom_allReduce__1_0_1", ts=begun, dur=2000 - begun, rank_size=2),
            part("Memcpy", ts=1900, dur=50, peer=1 - rank),
            rank=str(rank),
            distributed={"rank": rank, "world_size": 2},
            files={"communication.json": json.dumps(document)},
        )
    traceql.load(tmp_path / "in", tmp_path / "run.duckdb")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        found = values(trace, "SELECT rank, wait_ns, wait_source FROM collective ORDER BY rank")
        ranks = values(trace, "SELECT rank, world_size FROM trace ORDER BY rank")
    assert found == [(0, 600, "ranks"), (1, 0, "ranks")]
    assert ranks == [(0, 2), (1, 2)]


@pytest.mark.slow
def test_level_0_has_steps_by_operators_and_reports_what_is_missing(tmp_path: Path) -> None:
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
    with loaded(tmp_path, *events, rank=-1) as trace:
        kernels = values(trace, "SELECT rank, step_id, launch_id, category FROM kernel")
        assert kernels == [(0, 0, None, "elementwise")]
        checks = values(trace, "SELECT ok FROM ledger WHERE check_name = 'calls of CANN'")
        assert checks == [(None,)]


@pytest.mark.slow
def test_kernel_details_have_the_type_that_the_name_does_not_have(tmp_path: Path) -> None:
    head = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Num,Input Shapes"
    row = f'custom_17,MatMulV3,AI_CORE,{ascend_like.us(100)}\t,0.1,24,"""8,16;16,4"""'
    other = f"other,Add,AI_CORE,{ascend_like.us(999)}\t,0.1,1,N/A"
    files = {"kernel_details.csv": "\n".join([head, row, other, "damaged", ""])}
    events = (task("custom_17", ts=100, dur=100), task("custom_17", ts=300, dur=100))
    with loaded(tmp_path, *events, files=files) as trace:
        args = values(trace, "SELECT args ->> ['Type', 'Block Dim', 'Input Shapes'] FROM slice")
        categories = values(trace, "SELECT DISTINCT category FROM kernel")
        sql = "SELECT value, total, ok FROM ledger WHERE check_name = 'kernel_details.csv'"
        check = values(trace, sql)
    assert args == [(["MatMulV3", "24", "8,16;16,4"],), ([None, None, None],)]
    assert (categories, check) == ([("gemm",)], [(1, 3, None)])


@pytest.mark.slow
def test_tasks_of_unknown_types_and_other_traces_are_reported(tmp_path: Path) -> None:
    """The text form is read where a db is beside it; a task of an unknown type is no kernel."""
    events = (
        task("aclnnMm_MatMulCommon_MatMulV2", ts=100, dur=100),
        task("WaitAll", ts=250, dur=400, kind="NOTIFY_WAIT_SQE"),
        task("Dance", ts=700, dur=100, kind="QUANTUM_CORE"),
    )
    sql = """
        SELECT value, total, ok, contains(note, '''QUANTUM_CORE'' 1') FROM ledger
        WHERE check_name IN ('tasks of unknown type', 'other traces of the rank') ORDER BY ALL
    """
    with loaded(tmp_path, *events, files={"ascend_pytorch_profiler_0.db": ""}) as trace:
        assert values(trace, sql) == [(0, 1, None, False), (1, 3, False, True)]
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
    traceql.load(tmp_path / "in", tmp_path / "run.duckdb")
    kernels = """
        SELECT rank, device, stream, COUNT(*), SUM(dur), COUNT(launch_id) FROM kernel
        GROUP BY ALL ORDER BY rank
    """
    checks = """
        SELECT check_name, rank, value, total, ok FROM ledger WHERE ok IS FALSE
        OR check_name IN ('devices in the file', 'kernels of all devices') ORDER BY ALL
    """
    with traceql.Trace(tmp_path / "run.duckdb") as both:
        assert values(both, kernels) == [(0, 3, 2, 1, 100, 1), (1, 4, 2, 2, 600, 1)]
        assert values(both, "SELECT rank, tid FROM launch ORDER BY 1") == [(0, 101), (1, 102)]
        assert values(both, "SELECT rank, dur FROM gap") == [(1, 300)]
        assert values(both, checks) == [
            *(("devices in the file", rank, 2, 2, None) for rank in (0, 1)),
            ("kernels of all devices", 1, 3, 3, True),  # with the last of them
        ]
        fed = [b"".join(trace_processor_input(both, rank) or ()) for rank in (0, 1)]
    assert [text.count(b"AddAiCore") for text in fed] == [0, 2]


def loaded_db(folder: Path, *rows: ascend_db_like.Row) -> traceql.Trace:
    path = ascend_db_like.write(folder / "ascend_pytorch_profiler_0.db", *rows)
    traceql.load(path, folder / "run.duckdb")
    return traceql.open(folder / "run.duckdb")


@pytest.mark.slow
@pytest.mark.parametrize(("wait_ns", "cause"), [(80, "dependency"), (1, "launch")])
def test_waits_on_the_device_decide_alone(wait_ns: int, cause: str, tmp_path: Path) -> None:
    """The host requested a wait before the second kernel, which need not have lasted."""
    rows = (
        ascend_db_like.call("launch", ts=0, dur=2, connection=7),
        ascend_db_like.call("aclrtStreamWaitEvent", ts=3, dur=2, connection=6, kind=5000),
        ascend_db_like.call("launch", ts=6, dur=2, connection=8),
        *ascend_db_like.computed("Add", "Add", ts=20, dur=10, number=1, connection=7),
        ascend_db_like.task("EVENT_WAIT", ts=30, dur=wait_ns, number=3, streamId=5),
        *ascend_db_like.computed("Mm", "Mm", ts=120, dur=10, number=2, connection=8, streamId=5),
    )
    with loaded_db(tmp_path, *rows) as trace:
        assert values(trace, "SELECT ts, dur, cause FROM gap") == [(30, 90, cause)]


@pytest.mark.slow
def test_what_the_host_did_in_a_gap_is_that_of_the_thread_of_the_operator(tmp_path: Path) -> None:
    """torch_npu's queue is emptied by another thread, which waits in between."""
    queue = {"globalTid": ascend_db_like.PID << 32 | 102}
    rows = (
        ascend_db_like.event("aten::add", ts=0, dur=20, connectionId=1),
        ascend_db_like.event("aten::sort", ts=30, dur=60),
        ascend_db_like.event("aten::mm", ts=90, dur=10, connectionId=2),
        ascend_db_like.row("CONNECTION_IDS", 1, 7),
        ascend_db_like.row("CONNECTION_IDS", 2, 8),
        ascend_db_like.event("Dequeue@add", ts=5, dur=110, kind=50002, **queue),
        ascend_db_like.call("launch", ts=10, dur=5, connection=7, **queue),
        ascend_db_like.call("wait", ts=16, dur=90, connection=6, **queue),
        ascend_db_like.call("launch", ts=110, dur=5, connection=8, **queue),
        *ascend_db_like.computed("Add", "Add", ts=20, dur=10, number=1, connection=7),
        *ascend_db_like.computed("MatMulV2", "MatMulV2", ts=120, dur=10, number=2, connection=8),
    )
    with loaded_db(tmp_path, *rows) as trace:
        assert values(trace, "SELECT ts, dur, cause FROM gap") == [(30, 90, "host")]
        longest = [(row["doing"], row["self_ns"]) for row in trace.run("idle.gap")]
        (most, *_) = trace.run("idle.host").rows()
    assert longest == [("aten::sort", 60), ("(no event recorded)", 20), ("aten::mm", 10)]
    assert (most["doing"], most["idle_ns"]) == ("aten::sort", 60)
