"""Findings about NPUs, GPUs of AMD, and graphs that were recorded as one interval each."""

from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(("steps", "subject"), [(1, "The only step runs"), (2, "All steps run")])
def test_a_gpu_of_amd_has_hip_graphs(tmp_path: Path, steps: int, subject: str) -> None:
    records = []
    for n in range(3 * steps):
        at = 1_000 + 500 * n
        if n % 3 == 0:
            name = "execute_context_0(0)_generation_1(1)"
            records.append(rocpd_like.marker(name, ts=at, dur=1_200, correlation=100 + n))
        records += [
            rocpd_like.call(ts=at, dur=50, correlation=n + 1),
            rocpd_like.kernel(ts=at + 60, dur=40, correlation=n + 1, dispatch=n + 1),
        ]
    recorded = rocpd_like.Recorded(rocpd_like.PID, records)
    path = rocpd_like.write_rocpd(tmp_path / "1_results.db", [recorded])
    ((finding, advice),) = host_bound(path, tmp_path / "run.duckdb")
    assert finding.startswith(f"{subject} without HIP graphs and wait")
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


def recorded(folder: Path, *starts: float, **metadata: Any) -> Path:
    """A rank per start, us, with a kernel that lasts a second."""
    for rank, start in enumerate(starts):
        kernel = traces.kernel(ts=start, dur=SECOND)
        traces.write(folder / f"rank{rank}.json", kernel, **metadata)
    return folder


def found(folder: Path) -> list[str]:
    with traceql.open(folder / "run.duckdb") as trace:
        return [
            r["finding"] for r in trace.run("overview.findings") if r["kind"] == "different times"
        ]


def test_ranks_that_do_not_overlap_are_told_once_they_are_loaded(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 3 * SECOND, 0.5 * SECOND)
    loading = called("load", tmp_path, "-o", tmp_path / "run.duckdb")
    assert loading.stderr.decode().splitlines()[-1] == (
        "warning: recorded at another time than rank 0: rank 1 (2.0 s apart); "
        "load each run into a database of its own (-o)"
    )
    assert found(tmp_path) == [
        "Rank 1 was recorded at another time than rank 0: 2.0 s lie between them. "
        "They are not ranks of one run."
    ]


def test_clocks_of_two_machines_say_nothing_of_the_time(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 7_200 * SECOND)
    loading = called("load", tmp_path, "-o", tmp_path / "run.duckdb")
    assert b"warning" not in loading.stderr
    assert found(tmp_path) == []


def test_ranks_of_one_run_overlap(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 0.9 * SECOND)
    traceql.load(tmp_path, tmp_path / "run.duckdb")
    assert found(tmp_path) == []
