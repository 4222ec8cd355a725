"""Who waited for whom, and what the host did inside one gap."""

from pathlib import Path

import pytest
import traces
from traces import host, kernel, launch

import traceql

pytestmark = pytest.mark.slow


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
