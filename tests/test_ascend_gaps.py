"""Gaps of NPUs: their causes, and what the host did in them."""

from pathlib import Path

import ascend_db_like
import pytest
from ascend_db_like import Row, call, computed, event, task

import traceql

_QUEUE_THREAD = ascend_db_like.PID << 32 | 102


def gaps(trace: traceql.Trace) -> list[tuple[int, int, str]]:
    return [(row["ts"], row["dur"], row["cause"]) for row in trace.sql("FROM gap")]


@pytest.mark.slow
@pytest.mark.parametrize("waited", [True, False])
def test_waits_that_the_device_tells_decide_alone(waited: bool, tmp_path: Path) -> None:
    """The host asked for a wait before the second kernel, which need not have lasted."""
    rows = (
        call("launch", ts=0, dur=2, connection=7),
        call("aclrtStreamWaitEvent", ts=3, dur=2, connection=6, kind=5000),
        call("launch", ts=6, dur=2, connection=8),
        *computed("Add", "Add", ts=20, dur=10, number=1, connection=7),
        task("EVENT_WAIT", ts=30, dur=80 if waited else 1, number=3, streamId=5),
        *computed("MatMulV2", "MatMulV2", ts=120, dur=10, number=2, connection=8, streamId=5),
    )
    path = ascend_db_like.write(tmp_path / "ascend_pytorch_profiler_0.db", *rows)
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        found = gaps(trace)
    assert found == [(30, 90, "dependency" if waited else "launch")]


@pytest.mark.slow
def test_what_the_host_did_in_a_gap_is_that_of_the_thread_of_the_operator(tmp_path: Path) -> None:
    """torch_npu's queue is emptied by another thread, which waits in between."""
    rows = (
        event("aten::add", ts=0, dur=20, connectionId=1),
        event("aten::sort", ts=30, dur=60),
        event("aten::mm", ts=90, dur=10, connectionId=2),
        Row("CONNECTION_IDS", {"id": 1, "connectionId": 7}),
        Row("CONNECTION_IDS", {"id": 2, "connectionId": 8}),
        event("Dequeue@add", ts=5, dur=110, kind=50002, globalTid=_QUEUE_THREAD),
        call("launch", ts=10, dur=5, connection=7, globalTid=_QUEUE_THREAD),
        call("wait", ts=16, dur=90, connection=6, globalTid=_QUEUE_THREAD),
        call("launch", ts=110, dur=5, connection=8, globalTid=_QUEUE_THREAD),
        *computed("Add", "Add", ts=20, dur=10, number=1, connection=7),
        *computed("MatMulV2", "MatMulV2", ts=120, dur=10, number=2, connection=8),
    )
    path = ascend_db_like.write(tmp_path / "ascend_pytorch_profiler_0.db", *rows)
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        assert gaps(trace) == [(30, 90, "host")]
        longest = [(row["doing"], row["self_ns"]) for row in trace.run("idle.gap")]
        summed = [(row["doing"], row["idle_ns"]) for row in trace.run("idle.host")]
    assert longest == [("aten::sort", 60), ("(no event recorded)", 20), ("aten::mm", 10)]
    assert summed[0] == ("aten::sort", 60)
