"""What people see of profiles of Nsight Compute: alone, and with the trace of the program."""

from pathlib import Path

import ncu_like
import pytest
from command_line import called

import traceql
from traceql.errors import TraceqlError
from traceql.present.pftrace import export_perfetto

GRID, BLOCK = (2, 1, 1), (64, 1, 1)


def launch(name: str, duration: int, operations: int, read: int) -> ncu_like.Launch:
    """A launch on an H200, of so many ns, operations on the tensor cores and bytes."""
    metrics = {
        ncu_like.READ: str(read),
        ncu_like.WRITTEN: "0",
        ncu_like.DURATION: str(duration),
        ncu_like.TENSOR: str(operations),
        "device__attribute_display_name": "NVIDIA H200",
    }
    return ncu_like.launch(name, metrics, grid=GRID, block=BLOCK)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ncu") / "profile.csv"
    launches = [launch("gemm", 1_000, 8_000_000, 2_400_000), launch("norm", 3_000, 0, 7_200_000)]
    path.write_text(ncu_like.raw(*launches, launches[0]))
    return traceql.load(path, path.with_name("alone.duckdb")).database


@pytest.mark.slow
def test_kernels_of_a_profile_have_a_place_in_the_roofline(alone: Path) -> None:
    """2.4 and 7.2 MB in 1 and 3 us are 2,400 GB/s, half of the 4,800 GB/s of an H200."""
    columns = ("kernel", "launches", "total_ns", "share_pct", "achieved_gbps", "memory_pct")
    with traceql.open(alone) as trace:
        rows = trace.query("ncu.profile").rows()
    assert [tuple(row[column] for column in columns) for row in rows] == [
        ("norm", 1, 3_000, 60, 2_400, 50),
        ("gemm", 2, 2_000, 40, 2_400, 50),
    ]
    norm, gemm = rows
    assert (norm["bound"], norm["compute_pct"]) == (None, None)
    assert (gemm["bound"], gemm["achieved_tflops"]) == ("memory", 8)
    assert gemm["intensity"] == pytest.approx(8 / 2.4)


def test_a_profile_alone_says_what_it_has_and_what_it_needs(alone: Path) -> None:
    with traceql.open(alone) as trace:
        facts = {row["fact"]: row["value"] for row in trace.query("overview.recording")}
        headlines = {row["headline"]: row["value"] for row in trace.query("overview.headlines")}
    assert facts == {
        "devices": "NVIDIA H200",
        "counters": "Nsight Compute: 3 launches",
        "profiles": "profile.csv",
        "timeline": "none: load a trace of the same program with the profile "
        "(traceql load TRACE PROFILE)",
    }
    assert headlines == {"profiled": 3, "kernel time": 5_000, "memory": 2_400, "ledger": 1}
    shown = called("info", alone).stdout.decode()
    assert shown.startswith("NVIDIA H200 · Nsight Compute: 3 launches")
    assert "no findings: they need a timeline: load a trace of the same program" in shown
    assert "gemm" in shown


def test_a_profile_has_nothing_to_show_in_perfetto(alone: Path, tmp_path: Path) -> None:
    with (
        traceql.open(alone) as trace,
        pytest.raises(TraceqlError, match=r"no timeline; load a trace .* into it"),
    ):
        export_perfetto(trace, tmp_path / "run.pftrace")
    assert not (tmp_path / "run.pftrace").exists()
