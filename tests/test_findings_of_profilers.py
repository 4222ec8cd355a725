"""The diagnosis of recordings of an NPU, and of ranks that were recorded one after the other."""

import re
from pathlib import Path

import ascend_like
import pytest
import traces
from command_line import called

import traceql

pytestmark = pytest.mark.slow


def test_an_npu_is_no_gpu_and_has_acl_graphs(tmp_path: Path) -> None:
    """Three tasks, each of which is launched 400 ns after the one before ended."""
    folder = tmp_path / "in"
    events = []
    for n in range(3):
        events += [
            ascend_like.call(ts=500 * n, dur=50, connection=n + 1),
            ascend_like.task("aclnnMm_MatMulV2", ts=500 * n + 60, dur=40, connection=n + 1),
        ]
    ascend_like.write(folder / "w_1_2_ascend_pt", *events)
    traceql.load(folder, tmp_path / "run.duckdb")
    said = called("info", tmp_path / "run.duckdb").stdout.decode()
    causes = called("info", tmp_path / "run.duckdb", "--all").stdout.decode()
    assert "NPU" in said
    assert not re.search(r"\bGPUs?\b|CUDA graph", said + causes)


# --- recordings made one after the other ---------------------------------------------------------


SECOND = 1_000_000  # us, the unit of a trace


@pytest.mark.parametrize(
    ("starts", "apart"),
    [
        ((0, 3 * SECOND, 0.5 * SECOND), "rank 1 (2.0 s apart)"),
        ((0, 0.9 * SECOND), None),
        ((0, 7_200 * SECOND), None),  # clocks of two machines say nothing of the time
    ],
)
def test_ranks_that_do_not_overlap_are_a_warning_and_a_finding(
    starts: tuple[float, ...], apart: str | None, tmp_path: Path
) -> None:
    """Each rank has a kernel that lasts a second."""
    for rank, start in enumerate(starts):
        traces.write(tmp_path / f"rank{rank}.json", traces.kernel(ts=start, dur=SECOND))
    loading = called("load", tmp_path, "-o", tmp_path / "run.duckdb").stderr.decode()
    with traceql.open(tmp_path / "run.duckdb") as trace:
        found = [row["cause"] for row in trace.run("overview.findings")]
    assert ("inconsistent_times" in found) == bool(apart)
    assert ("warning" in loading) == bool(apart)
    assert (apart or "") in loading
