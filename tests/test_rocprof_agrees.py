"""Every output of rocprofv3 gives what the PyTorch trace of the same run gives."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import databases
import pytest
import rocpd_like
from of_any_profiler import FIRST, GAPS, STEPS
from rocprof_pftrace import write_pftrace
from shared_files import shared_file

import traceql

# Memory sets are kernels on AMD's GPUs; copies do not tell the kind of the host's memory.
_KERNELS = f"""
    SELECT
        kernel.rank, kernel.ts - {FIRST.format("kernel")} AS ts, kernel.dur,
        CASE WHEN category IN ('memcpy', 'memset') THEN '' ELSE kernel.name END AS name,
        device, stream,
        CASE WHEN category <> 'memset' THEN [grid, block] END AS sizes,
        CASE WHEN category = 'memcpy' THEN bytes END AS bytes,
        category, layer, role, pass, in_graph,
        launch.name AS launch, step.number, step.phase, layer_source
    FROM kernel
    LEFT JOIN step USING (step_id)
    LEFT JOIN launch ON kernel.launch_id = launch.id
    ORDER BY ALL
"""
_QUICK = "qwen3-8b-tp1-graph"


# What a form does not say: CSV the sizes of copies; a Perfetto trace the sizes of kernels in three
# dimensions, and which of the GPUs an agent is. What PyTorch's trace of that run says of layers is
# from Python's stacks. It has one stream, for which the queue of the GPU stands.
_UNTOLD = {
    "csv": ("bytes",),
    "pftrace": ("sizes", "device", "stream", "layer", "role", "pass", "layer_source"),
}


@cache
def loaded(name: str, form: str) -> traceql.Trace:
    """The run's database, loaded from one of the forms that rocprofv3 writes."""

    def load(path: Path) -> None:
        files = databases.files(name)
        run = path.with_suffix("") / "run"  # a load looks for a configuration in two folders
        processes = rocpd_like.run(files)
        if form == "merged":
            rocpd_like.write_rocpd(run / "merged.db", processes)
        for process in processes:
            if form == "rocpd":
                rocpd_like.write_rocpd(run / f"{process.pid}_results.db", [process])
            elif form == "json":
                rocpd_like.write_json(run / f"{process.pid}_results.json", [process])
            elif form == "csv":
                rocpd_like.write_csv(run, process)
            elif form == "pftrace":
                write_pftrace(run / f"{process.pid}_results.pftrace", process)
        if (config := files[0].with_name("config.json")).exists():
            shutil.copy(config, run)
        traceql.load(run, path)

    return traceql.Trace(shared_file(f"{name}-{form}.duckdb", load))


def runs() -> list[Any]:
    """Runs and forms as parameters: one is quick. Runs with Python stacks have other evidence."""
    slow = pytest.mark.slow
    chosen = [(_QUICK, "rocpd"), ("qwen3-0.6b-tp1-eager", "rocpd")]
    chosen += [(_QUICK, form) for form in ("json", "csv")]
    chosen += [("mi300x-qwen1.5", "pftrace")]  # on AMD's GPUs, kernels of a stream do not overlap
    chosen += [("qwen3-8b-pp2-graph", "merged")]
    is_quick = (_QUICK, "rocpd")
    return [pytest.param(*one, marks=[] if one == is_quick else slow) for one in chosen]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), runs())
def test_kernels_steps_and_gaps_are_those_of_the_pytorch_trace(name: str, form: str) -> None:
    trace, found = databases.trace(name), loaded(name, form)
    expected, kernels = trace.select(_KERNELS).rows(), found.select(_KERNELS).rows()
    assert expected
    for row in (*expected, *kernels):
        for column in _UNTOLD.get(form, ()):
            del row[column]
    assert kernels == expected
    for sql in (STEPS, GAPS):
        rows = found.select(sql).rows(), trace.select(sql).rows()
        for row in (*rows[0], *rows[1]) if form == "pftrace" else ():
            row.pop("device", None)
        assert rows[0] == rows[1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), runs())
def test_nothing_of_a_recording_is_lost(name: str, form: str) -> None:
    lost = "SELECT rank, check_name, value, total FROM ledger WHERE ok IS FALSE"
    checked = "SELECT COUNT(*) AS n FROM ledger WHERE ok AND check_name LIKE 'events %'"
    assert loaded(name, form).select(lost).rows() == databases.trace(name).select(lost).rows() == []
    (row,) = loaded(name, form).select(checked).rows()
    assert row["n"] >= 4 * len(databases.files(name))  # kernels, copies, calls and markers


@pytest.mark.slow
def test_ranks_of_a_merged_database_are_its_processes() -> None:
    rows = loaded("qwen3-8b-pp2-graph", "merged").sql("""
        SELECT rank, world_size, device_name, CAST(metadata ->> 'process' AS BIGINT) AS pid
        FROM trace ORDER BY rank
    """)
    assert [tuple(row.values()) for row in rows.rows()] == [
        (rank, 2, rocpd_like.GPU_NAME, rocpd_like.PID + rank) for rank in range(2)
    ]
