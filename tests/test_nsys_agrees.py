"""An export of Nsight Systems gives what the PyTorch trace of the same run gives."""

import json
import shutil
from functools import cache
from pathlib import Path

import databases
import nsys_like
import pytest
from command_line import output
from of_any_profiler import FIRST, GAPS, STEPS
from shared_files import shared_file

import traceql

_LAYER_SOURCE = "layer_source"
_KERNELS = f"""
    SELECT
        kernel.rank, kernel.ts - {FIRST.format("kernel")} AS ts, kernel.dur, kernel.name, kind,
        device, stream, grid, block, bytes, category, layer, role, pass, in_graph,
        launch.name AS launch, step.number, step.phase, {_LAYER_SOURCE}
    FROM kernel
    LEFT JOIN step USING (step_id)
    LEFT JOIN launch ON kernel.launch_id = launch.id
    ORDER BY ALL
"""


@cache
def export_of(name: str) -> traceql.Trace:
    """The run's database, loaded from one export of all its ranks."""

    def load(path: Path) -> None:
        files = databases.files(name)
        run = path.with_suffix("") / "run"  # a load looks for a configuration in two folders
        nsys_like.write_run(run / "run.sqlite", files)
        if (config := files[0].with_name("config.json")).exists():
            shutil.copy(config, run)
        traceql.load(run, path)

    return traceql.Trace(shared_file(f"{name}-nsys.duckdb", load))


@pytest.mark.slow
@pytest.mark.parametrize("name", databases.OWN_SHORT)
def test_kernels_steps_and_gaps_are_those_of_the_pytorch_trace(name: str) -> None:
    trace, export = databases.trace(name), export_of(name)
    expected, found = trace.select(_KERNELS).rows(), export.select(_KERNELS).rows()
    assert expected
    if "stack" in name:
        # An export has no Python frames: layers have another evidence, and outside of layers the
        # frames tell lm_head from sampling where the order of kernels does not.
        assert {row.pop(_LAYER_SOURCE) for row in expected} >= {"module"}
        assert "module" not in {row.pop(_LAYER_SOURCE) for row in found}
        for row in (*expected, *found):
            row["role"] = row["role"] if row["layer"] is not None else None
    assert found == expected
    for sql in (STEPS, GAPS):
        assert export.select(sql).rows() == trace.select(sql).rows()


@pytest.mark.slow
@pytest.mark.parametrize("name", databases.OWN_SHORT)
def test_nothing_of_an_export_is_lost(name: str) -> None:
    lost = "SELECT rank, check_name, value, total FROM ledger WHERE ok IS FALSE"
    checked = "SELECT COUNT(*) AS n FROM ledger WHERE ok"
    assert export_of(name).select(lost).rows() == databases.trace(name).select(lost).rows() == []
    (row,) = export_of(name).select(checked).rows()
    assert row["n"] >= 12 * len(databases.files(name))  # six categories, by number and duration


@pytest.mark.slow
def test_ranks_of_one_export_have_their_processes() -> None:
    name = "qwen3-32b-tp4-graph-nccl"
    rows = export_of(name).sql(
        "SELECT rank, world_size, device_name, CAST(metadata ->> 'process' AS BIGINT) AS pid "
        "FROM trace ORDER BY rank"
    )
    assert [tuple(row.values()) for row in rows.rows()] == [
        (rank, 4, "NVIDIA H200", nsys_like.PID + rank) for rank in range(4)
    ]


@pytest.mark.slow
def test_a_comparison_tells_that_another_profiler_recorded() -> None:
    name = databases.BUNDLED[0]
    base, new = databases.trace(name).path, export_of(name).path
    rows = json.loads(output("diff", base, new, "--query", "setup", "--format", "json"))
    (by,) = [row for row in rows if row["name"] == "recorded.by"]
    assert by["base"] == "PyTorch profiler"
    assert by["new"].startswith("Nsight Systems 2026.1")
