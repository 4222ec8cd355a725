"""Findings about NPUs, GPUs of AMD, and graphs that were recorded as one interval each."""

from pathlib import Path

import ascend_like
import pytest
import rocpd_like
import traces
from command_line import called
from databases import ROOT

import traceql

pytestmark = pytest.mark.slow

_WHOLE_GRAPHS = ROOT / "tests" / "data" / "nsys" / "qwen3-8b-2layers-graph-whole.sqlite.gz"


def host_bound(path: Path, target: Path) -> list[tuple[str, str]]:
    """The first two sentences of each finding about the host, and the first one of its advice."""
    traceql.load(path, target)
    with traceql.Trace(target) as trace:
        return [
            (". ".join(row["finding"].split(". ")[:2]), row["advice"].split(". ")[0])
            for row in trace.run("overview.findings")
            if row["kind"] == "host-bound steps"
        ]


def test_steps_in_graphs_that_were_not_recorded_are_no_full_graphs(tmp_path: Path) -> None:
    prefill, decode = host_bound(_WHOLE_GRAPHS, tmp_path / "run.duckdb")
    assert prefill[0].startswith(
        "Prefill and mixed steps run without CUDA graphs and wait for the host: 2 of 7 steps"
    )
    assert decode[0].startswith(
        "Decode steps run in CUDA graphs whose kernels were not recorded and wait for the host: "
        "5 of 7 steps"
    )


def test_an_npu_has_acl_graphs(tmp_path: Path) -> None:
    """Three tasks, each of which is launched 400 ns after the one before ended."""
    folder = tmp_path / "in"
    events = []
    for n in range(3):
        events += [
            ascend_like.call(ts=500 * n, dur=50, connection=n + 1),
            ascend_like.task("aclnnMm_MatMulV2", ts=500 * n + 60, dur=40, connection=n + 1),
        ]
    ascend_like.write(folder / "w_1_2_ascend_pt", *events)
    assert host_bound(folder, tmp_path / "run.duckdb") == [
        (
            "The program runs without ACL graphs and waits for the host. "
            "The NPU is idle for 0.0 ms until the host launches the next kernel",
            "Use ACL graphs, compile the model, or give each launch more work",
        )
    ]


def test_a_gpu_of_amd_has_hip_graphs(tmp_path: Path) -> None:
    name = "execute_context_0(0)_generation_1(1)"
    records = [rocpd_like.marker(name, ts=1_000, dur=1_200, correlation=100)]
    for n in range(3):
        at = 1_000 + 500 * n
        records += [
            rocpd_like.call(ts=at, dur=50, correlation=n + 1),
            rocpd_like.kernel(ts=at + 60, dur=40, correlation=n + 1, dispatch=n + 1),
        ]
    recorded = rocpd_like.Recorded(rocpd_like.PID, records)
    path = rocpd_like.write_rocpd(tmp_path / "1_results.db", [recorded])
    ((finding, advice),) = host_bound(path, tmp_path / "run.duckdb")
    assert finding.startswith("The only step runs without HIP graphs and wait")
    assert advice == "Use HIP graphs: remove enforce_eager"


@pytest.mark.parametrize("kind", ["Pageable", "Pinned"])
def test_pinned_memory_is_advised_where_copies_are_from_other_memory(
    kind: str, tmp_path: Path
) -> None:
    name = f"Memcpy HtoD ({kind} -> Device)"
    copies = [traces.kernel(name, ts=100 * n + 50, dur=40, cat="gpu_memcpy") for n in range(9)]
    kernels = [traces.kernel("gemm", ts=100 * n, dur=40) for n in range(9)]
    traces.write(tmp_path / "a.json", *copies, *kernels)
    traceql.load(tmp_path / "a.json", tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        findings = trace.run("overview.findings").rows()
    (advice,) = [row["advice"] for row in findings if row["kind"] == "exposed copies"]
    assert "non-blocking copies" in advice
    assert ("Use pinned memory" in advice) == (kind == "Pageable")


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
        kinds = [row["kind"] for row in trace.run("overview.findings")]
    assert ("different times" in kinds) == bool(apart)
    assert ("warning" in loading) == bool(apart)
    assert (apart or "") in loading
