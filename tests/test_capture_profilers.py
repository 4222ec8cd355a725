"""Capture with the profilers of NVIDIA: what they are asked for, and what becomes of their reports.

Stand-ins are on PATH instead of the tools: they pass the engine on, and write what they are told.
"""

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from nsys_samples import unpacked

import traceql
from capture.engine_options import Plan
from capture.errors import CaptureError, EngineFailed
from capture.profilers import PROFILERS, Profiler, ProfilerOptions
from capture.run_directory import write_run_json
from capture.supervise import run_engine
from capture.worker_extension import annotate

TOOLS = ("nsys", "ncu")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, with the few programs that the stand-ins need."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cp", "touch", "cat"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def stand_in(programs: Path, name: str, script: str) -> None:
    file = programs / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def refusal(tool: str, *, world_size: int = 1, has_gpu: bool = True, **options: bool) -> str:
    with pytest.raises(CaptureError) as raised:
        PROFILERS[tool].require_possible(
            ProfilerOptions(**options), world_size=world_size, has_gpu=has_gpu
        )
    return str(raised.value)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_not_installed_or_of_no_use_is_refused(tool: str, programs: Path) -> None:
    assert f"{tool} is not on PATH" in refusal(tool)
    stand_in(programs, tool, "exit 0")
    assert "needs an NVIDIA GPU" in refusal(tool, has_gpu=False)
    assert "--stacks" in refusal(tool, stacks=True)
    PROFILERS[tool].require_possible(ProfilerOptions(), world_size=1, has_gpu=True)


def test_nsight_compute_refuses_ranks_that_wait_for_each_other(programs: Path) -> None:
    stand_in(programs, "ncu", "exit 0")
    assert "--tp 1" in refusal("ncu", world_size=2)
    assert "--memory" in refusal("ncu", memory=True)
    stand_in(programs, "nsys", "exit 0")
    PROFILERS["nsys"].require_possible(ProfilerOptions(memory=True), world_size=2, has_gpu=True)


def test_modules_become_nvtx_ranges_where_a_tool_records(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    @contextmanager
    def said(label: str) -> Iterator[None]:
        opened.append(label)
        yield

    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(nvtx=SimpleNamespace(range=said))  # type: ignore[attr-defined]
    torch.profiler = SimpleNamespace(record_function=None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Module:
        def forward(self, value: int) -> int:
            return value + 1

    module = Module()
    model = SimpleNamespace(named_modules=lambda **_: [("model.layers.0.mlp", module)])
    assert annotate(model, nvtx=True) == ["model.layers.0.mlp"]
    assert module.forward(1) == 2
    assert opened == ["module: model.layers.0.mlp"]


def test_the_plan_and_the_answer_pass_through_the_tool(tmp_path: Path, programs: Path) -> None:
    """Without vLLM the engine process can only fail, but it must be heard to."""
    stand_in(programs, "nsys", f'touch {tmp_path / "began"}; shift 1; exec "$@"')
    plan = Plan(folder=tmp_path, scratch=tmp_path, engine_arguments={"nonsense": 1}, random={})
    log = tmp_path / "log.txt"
    with pytest.raises(EngineFailed, match=r"vllm|nonsense"):
        run_engine(
            plan, log, {"PATH": str(programs)}, lambda *_: None, launcher=["nsys", "profile"]
        )
    assert (tmp_path / "began").exists()


def recorded(tmp_path: Path, profiler: Profiler, ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """A run directory whose report is in the scratch folder; returns what collect says."""
    scratch = tmp_path / "run" / ".scratch"
    scratch.mkdir(parents=True)
    suffix = {"nsys": ".nsys-rep", "ncu": ".ncu-rep"}[profiler.name]
    (scratch / f"profile{suffix}").write_bytes(b"a report")
    return profiler.collect(tmp_path / "run", scratch, ranks)


def processes(export: Path) -> list[int]:
    with closing(sqlite3.connect(export)) as con:
        rows = con.execute("SELECT DISTINCT globalPid FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
        return sorted(pid >> 24 & 0xFFFFFF for (pid,) in rows)


@pytest.mark.slow
def test_ranks_of_one_report_are_distinguished_by_their_processes(
    tmp_path: Path, programs: Path
) -> None:
    export = unpacked("two-processes-graph-whole", tmp_path / "export.sqlite")
    stand_in(
        programs,
        "nsys",
        f"""case "$1" in
        --version) echo "NVIDIA Nsight Systems version 2025.3";;
        export) for word in "$@"; do
            case "$word" in --output=*) cp {export} "${{word#*=}}";; esac
        done;;
        esac""",
    )
    first, second = processes(export)
    ranks: list[dict[str, Any]] = [
        {"rank": 0, "tp_rank": 0, "pid": second},
        {"rank": 1, "tp_rank": 1, "pid": first},
    ]
    said = recorded(tmp_path, PROFILERS["nsys"], ranks)
    assert said["version"] == "NVIDIA Nsight Systems version 2025.3"
    assert {rank["trace"] for rank in ranks} == {"traces/profile.sqlite"}
    run = tmp_path / "run"
    assert (run / said["report"]).read_bytes() == b"a report"
    write_run_json(run, {"ranks": ranks, "parallel": {"world_size": 2}}, status="complete")
    traceql.load(run, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        rows = trace.sql(
            "SELECT rank, tp_rank, CAST(json_extract(metadata, '$.process') AS BIGINT) FROM trace "
            "ORDER BY rank"
        ).rows()
    assert [tuple(row.values()) for row in rows] == [(0, 0, second), (1, 1, first)]


def test_the_counts_of_nsight_compute_become_a_table(tmp_path: Path, programs: Path) -> None:
    stand_in(programs, "ncu", 'case "$1" in --version) echo 2025.3;; *) echo "$@";; esac')
    ranks: list[dict[str, Any]] = [{"rank": 0}]
    recorded(tmp_path, PROFILERS["ncu"], ranks)
    asked = (tmp_path / "run" / ranks[0]["trace"]).read_text().split()
    assert {"--csv", "--page=raw", "--print-units=base"} <= set(asked)
    assert f"--import={tmp_path / 'run' / 'traces' / 'profile.ncu-rep'}" in asked


@pytest.mark.parametrize("tool", TOOLS)
def test_a_report_that_is_missing_is_an_error_and_one_that_cannot_be_read_is_kept(
    tool: str, tmp_path: Path, programs: Path
) -> None:
    stand_in(programs, tool, "exit 0")
    (tmp_path / "no" / ".scratch").mkdir(parents=True)
    with pytest.raises(EngineFailed, match=rf"{tool} wrote no report; .*log\.txt"):
        PROFILERS[tool].collect(tmp_path / "no", tmp_path / "no" / ".scratch", [{"rank": 0}])
    stand_in(programs, tool, "echo first >&2; echo 'no such section' >&2; exit 3")
    with pytest.raises(EngineFailed, match=r"failed \(no such section\)"):
        recorded(tmp_path, PROFILERS[tool], [{"rank": 0}])
    assert list((tmp_path / "run" / "traces").glob("profile.*-rep"))
