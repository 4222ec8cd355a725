"""Which profiler recorded a run, with its version and options, as overview.recording says."""

import json
from pathlib import Path

import ascend_like
import pytest
import rocpd_like
import traces
from ascend_like import operation, part, task
from command_line import output
from databases import ROOT

import traceql

pytestmark = pytest.mark.slow

NSYS = ROOT / "tests" / "data" / "nsys"


def facts(paths: list[Path], folder: Path, *, mix: bool = False) -> dict[str, list[str]]:
    folder.mkdir(exist_ok=True)
    traceql.load(paths, folder / "run.duckdb", mix_profilers=mix)
    found: dict[str, list[str]] = {}
    with traceql.open(folder / "run.duckdb") as trace:
        for row in trace.run("overview.recording"):
            found.setdefault(row["fact"], []).append(row["value"])
    return found


@pytest.mark.parametrize(("name", "trace"), [("graph-node", "node"), ("graph-whole", "graph")])
def test_nsight_systems_has_its_version_and_how_it_traced_graphs(
    name: str, trace: str, tmp_path: Path
) -> None:
    found = facts([NSYS / f"qwen3-8b-2layers-{name}.sqlite.gz"], tmp_path)
    assert found["profiler"] == [f"Nsight Systems 2025.3.2.0 (--cuda-graph-trace={trace})"]


def test_an_ascend_profile_has_its_level_and_the_versions(tmp_path: Path) -> None:
    info = {
        "config": {"experimental_config": {"_profiler_level": "Level2"}},
        "torch_npu_version": "2.7.1",
        "cann_version": "8.3.RC1",
    }
    folder = tmp_path / "in" / "w_1_2_ascend_pt"
    ascend_like.write(folder, task("Mm", ts=9, dur=5))
    (folder / "profiler_info_0.json").write_text(json.dumps(info))
    assert facts([tmp_path / "in"], tmp_path)["profiler"] == [
        "Ascend profiler (level 2, torch_npu 2.7.1, CANN 8.3.RC1, form text)"
    ]


def test_several_profilers_are_named_with_their_ranks_and_options(tmp_path: Path) -> None:
    options = {"record_shapes": 1, "with_stack": 1, "profile_memory": 0}
    first = traces.write(tmp_path / "rank0.json", traces.kernel(ts=0, dur=5), **options)
    records = [rocpd_like.kernel(ts=1_000, dur=10, dispatch=1)]
    process = rocpd_like.Recorded(rocpd_like.PID, records)
    second = rocpd_like.write_rocpd(tmp_path / "1_results.db", [process])
    assert sorted(facts([first, second], tmp_path, mix=True)["profiler"]) == [
        "PyTorch profiler (shapes, stacks) on rank 0",
        "rocprofv3 (form rocpd, schema 3) on rank 1",
    ]
    chrome = traces.write(tmp_path / "a.json", traces.kernel(ts=0, dur=5))
    assert "profiler" not in facts([chrome], tmp_path / "alone")


def test_a_communicator_shows_ranks_that_are_not_loaded(tmp_path: Path) -> None:
    """The operation has four ranks, of which one is loaded, and nothing states their number."""
    folder = tmp_path / "in" / "w_1_2_ascend_pt"
    ascend_like.write(
        folder,
        operation("hcom_allReduce__123_0_1", ts=1000, dur=1000),
        *(part("Memcpy", ts=1000, dur=700, peer=peer, plane=peer) for peer in range(4)),
    )
    assert facts([tmp_path / "in"], tmp_path)["ranks"] == ["1 of at least 4 loaded"]
    assert ": 1 of at least 4 ranks, " in output("info", tmp_path / "run.duckdb")
