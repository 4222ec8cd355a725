"""Every output of rocprofv3 gives what the PyTorch trace of the same run gives."""

import shutil
from pathlib import Path
from typing import Any

import databases
import pytest
import rocpd_like
from of_any_profiler import FIRST, GAPS, STEPS
from rocprof_pftrace import write_pftrace
from shared_files import shared_file

import traceql

pytestmark = pytest.mark.slow

# Memory sets are kernels on AMD's GPUs; copies do not tell the kind of the host's memory.
_KERNELS = f"""
    SELECT
        kernel.rank, kernel.ts - {FIRST.format("kernel")} AS ts, kernel.dur,
        CASE WHEN category IN ('memcpy', 'memset') THEN '' ELSE kernel.name END AS name,
        kernel.device, stream,
        CASE WHEN category <> 'memset' THEN [grid, block] END AS sizes,
        CASE WHEN category = 'memcpy' THEN bytes END AS bytes,
        category, layer, role, pass, in_graph,
        launch.name AS launch, step.number, step.phase, layer_source
    FROM kernel
    LEFT JOIN step USING (step_id)
    LEFT JOIN launch ON kernel.launch_id = launch.id
    ORDER BY ALL
"""
_GRAPH = "qwen3-8b-tp1-graph"
# What a form does not say: CSV the sizes of copies; a Perfetto trace the sizes of kernels in three
# dimensions, and which of the GPUs an agent is. What PyTorch's trace of that run says of layers is
# from Python's stacks. It has one stream, for which the queue of the GPU stands.
_UNKNOWN = {
    "csv": ("bytes",),
    "pftrace": ("sizes", "device", "stream", "layer", "role", "pass", "layer_source"),
}
# Runs with Python stacks have other evidence.
_RUNS = [
    *((_GRAPH, "rocpd"), ("qwen3-0.6b-tp1-eager", "rocpd"), (_GRAPH, "json"), (_GRAPH, "csv")),
    ("mi300x-qwen1.5", "pftrace"),  # on AMD's GPUs, kernels of a stream do not overlap
    ("qwen3-8b-pp2-graph", "merged"),
]


def loaded(name: str, form: str) -> traceql.Trace:
    """The run's database, loaded from one of the forms that rocprofv3 writes."""

    def load(path: Path) -> None:
        files = databases.files(name)
        run = path.with_suffix("") / "run"  # a load looks for a configuration in two folders
        processes = rocpd_like.run(files)
        if form == "merged":
            rocpd_like.write_rocpd(run / "merged.db", processes)
        for process in () if form == "merged" else processes:
            if form == "pftrace":
                write_pftrace(run / f"{process.pid}_results.pftrace", process)
            else:
                rocpd_like.write(run, form, process)
        if (config := files[0].with_name("config.json")).exists():
            shutil.copy(config, run)
        traceql.load(run, path)

    return traceql.Trace(shared_file(f"{name}-{form}.duckdb", load))


@pytest.mark.parametrize(("name", "form"), _RUNS)
def test_kernels_steps_and_gaps_are_those_of_the_pytorch_trace(name: str, form: str) -> None:
    of_pytorch = databases.trace(name)
    with loaded(name, form) as of_amd:
        expected, kernels = (one.select(_KERNELS).rows() for one in (of_pytorch, of_amd))
        assert expected
        for row in (*expected, *kernels):
            for column in _UNKNOWN.get(form, ()):
                del row[column]
        assert kernels == expected
        for sql in (STEPS, GAPS):
            found: list[list[dict[str, Any]]] = [t.select(sql).rows() for t in (of_amd, of_pytorch)]
            for row in (*found[0], *found[1]) if form == "pftrace" else ():
                row.pop("device", None)
            assert found[0] == found[1]
        lost = "SELECT rank, check_name, value, total FROM ledger WHERE ok IS FALSE"
        assert of_amd.select(lost).rows() == of_pytorch.select(lost).rows() == []
        checked = "SELECT COUNT(*) AS n FROM ledger WHERE ok AND check_name LIKE 'events %'"
        (row,) = of_amd.select(checked).rows()
        assert row["n"] >= 4 * len(databases.files(name))  # kernels, copies, calls and markers
        ranks = of_amd.sql("SELECT rank, world_size, metadata ->> 'process' AS pid FROM trace")
        if form == "merged":  # ranks are processes
            assert [tuple(row.values()) for row in ranks] == [
                (rank, 2, str(rocpd_like.PID + rank)) for rank in range(2)
            ]
