"""Who waited for whom, and what the host did inside one gap."""

from collections import defaultdict
from pathlib import Path

import databases
import pytest
import traces
from traces import host, kernel, launch

import traceql

BALANCED = "qwen3-32b-tp4-graph-nccl"


def test_each_wait_is_for_the_one_rank_that_came_last() -> None:
    trace = databases.trace(BALANCED)
    expected: defaultdict[tuple[int, int], int] = defaultdict(int)
    operations = _operations(trace)
    for waits in operations.values():
        late = max(waits, key=lambda rank: (waits[rank][0], -rank))
        for rank, (_, wait_ns) in waits.items():
            if rank != late and wait_ns:
                expected[rank, late] += wait_ns
    rows = trace.run("comm.waits").rows()
    assert {(row["rank"], row["late_rank"]): row["wait_ns"] for row in rows} == expected
    assert abs(sum(row["share_pct"] for row in rows) - 100) < 1e-9


def test_of_two_ranks_that_come_last_at_once_one_is_blamed() -> None:
    trace = databases.trace(BALANCED)
    operations = _operations(trace)
    late = [max(late_ns for late_ns, _ in waits.values()) for waits in operations.values()]
    ties = [
        waits
        for waits in operations.values()
        if sorted(late_ns for late_ns, _ in waits.values())[-2:] == [max(waits.values())[0]] * 2
    ]
    assert ties  # else this trace proves nothing
    blamed = sum(row["last"] for row in trace.run("comm.skew"))
    assert blamed == sum(late_ns > 0 for late_ns in late)


def _operations(trace: traceql.Trace) -> dict[int, dict[int, tuple[int, int]]]:
    """Of each matched operation, by rank: how late it came, and its waiting."""
    found: defaultdict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    rows = trace.sql("SELECT match_id, rank, late_ns, wait_ns FROM collective")
    for row in rows:
        if row["match_id"] is not None:
            found[row["match_id"]][row["rank"]] = row["late_ns"], row["wait_ns"]
    return found


@pytest.mark.slow
def test_a_gap_is_split_by_what_the_host_was_in(tmp_path: Path) -> None:
    traces.write(
        tmp_path / "rank0.json",
        launch(ts=0, correlation=1),
        kernel(ts=2, dur=8, correlation=1),
        host("prepare", ts=5, dur=45),  # the gap is from 10 to 60
        host("aten::sort", ts=15, dur=20),
        host("aten::copy_", ts=20, dur=5),
        host("aten::copy_", ts=30, dur=5),
        host("of another thread", ts=10, dur=50, tid=7),
        launch(ts=55, dur=3, correlation=2),
        kernel(ts=60, dur=1, correlation=2),
    )
    traceql.load([tmp_path / "rank0.json"], tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        rows = trace.run("idle.gap").rows()
        assert trace.run("idle.gap", gap=2).rows() == []
    assert [(row["doing"], row["events"], row["own_ns"]) for row in rows] == [
        ("prepare", 1, 20_000),
        ("aten::copy_", 2, 10_000),
        ("aten::sort", 1, 10_000),
        ("(no event recorded)", None, 7_000),
        ("cudaLaunchKernel", 1, 3_000),
    ]


@pytest.mark.slow
def test_events_that_overlap_without_nesting_share_a_gap(tmp_path: Path) -> None:
    traces.write(
        tmp_path / "rank0.json",
        launch(ts=0, correlation=1),
        kernel(ts=2, dur=8, correlation=1),
        host("one", ts=5, dur=25),  # the gap is from 10 to 60
        host("other", ts=20, dur=60),
        launch(ts=55, dur=3, correlation=2),
        kernel(ts=60, dur=1, correlation=2),
    )
    traceql.load([tmp_path / "rank0.json"], tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        rows = trace.run("idle.gap").rows()
    assert sum(row["own_ns"] for row in rows) == 50_000
