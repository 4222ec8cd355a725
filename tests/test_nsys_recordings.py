"""Recordings of one H200: beside those of the same programs by PyTorch, and as Parquet files."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nsys_samples import FOLDER, in_memory
from shared_files import shared_file

import traceql
from traceql.database.loading.discovery import trace_files
from traceql.errors import TraceqlError

pytestmark = pytest.mark.slow

# Two layers, and the program: three tokens for each of four requests, so one step with prompts and
# two that generate. Another step has no requests.
PHASES = ["decode", "decode", "idle", "prefill"]
_KERNELS = """
    SELECT
        kernel.kind, kernel.category, kernel.symbol, kernel.role, kernel.layer, kernel.in_graph,
        kernel.grid, kernel.block, kernel.bytes, kernel.stream, step.number, step.phase
    FROM kernel
    LEFT JOIN step USING (step_id)
    ORDER BY kernel.ts, kernel.id
"""


def opened(name: str) -> traceql.Trace:
    path = FOLDER / f"{name}.gz"
    return traceql.Trace(shared_file(f"own-{name}.duckdb", lambda made: traceql.load([path], made)))


def rows(trace: traceql.Trace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql).rows()]


@pytest.mark.parametrize("name", ["qwen3-8b-2layers-eager", "qwen3-8b-2layers-nvtx-layers"])
def test_both_profilers_saw_the_same_kernels_in_the_same_layers_and_steps(name: str) -> None:
    """Names are not compared: the demanglers of the two profilers spell templates differently."""
    with opened(f"{name}.sqlite") as nsys, opened(f"{name}.pt.trace.json") as pytorch:
        found = rows(nsys, _KERNELS)
        assert found == rows(pytorch, _KERNELS)
        assert {layer for _, _, _, _, layer, *_ in found} == {None, 0, 1}
        assert sorted(phase for (phase,) in rows(nsys, "SELECT phase FROM step")) == PHASES
        tokens = "SELECT SUM(context_tokens), SUM(generation_tokens) FROM step"
        assert rows(nsys, tokens) == [(300 + 200 + 128 + 72, 4 * 2)]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sqlite.gz")), ids=lambda path: path.stem)
def test_nothing_is_lost(path: Path) -> None:
    """Against counts by sqlite3 alone."""
    with in_memory(path) as con, opened(path.name.removesuffix(".gz")) as trace:
        there = {name for (name,) in con.execute("SELECT name FROM sqlite_master")}
        for table, cats in {
            "CUPTI_ACTIVITY_KIND_KERNEL": "'kernel'",
            "CUPTI_ACTIVITY_KIND_MEMCPY": "'gpu_memcpy'",
            "CUPTI_ACTIVITY_KIND_MEMSET": "'gpu_memset'",
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "'cuda_graph'",
            "CUPTI_ACTIVITY_KIND_RUNTIME": "'cuda_runtime', 'cuda_driver'",
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "'cuda_sync'",
            "OSRT_API": "'os_runtime'",
        }.items():
            sums = f'SELECT COUNT(*), COALESCE(SUM("end" - start), 0) FROM {table}'
            expected = con.execute(sums).fetchall() if table in there else [(0, 0)]
            kept = f"""
                SELECT COUNT(*), CAST(COALESCE(SUM(dur), 0) AS BIGINT)
                FROM slice
                WHERE cat IN ({cats})
            """
            assert rows(trace, kept) == expected, table
        assert rows(trace, "SELECT check_name FROM ledger WHERE NOT ok") == []


def test_layers_of_ranges_are_those_around_a_shared_module() -> None:
    """All layers share one rotary embedding, whose range has the name of layer 0."""
    with opened("qwen3-8b-2layers-nvtx-layers.sqlite") as trace:
        rope = "FROM kernel WHERE role = 'rope' GROUP BY ALL ORDER BY ALL"
        found = rows(trace, f"SELECT layer, layer_source, COUNT(*) {rope}")
        other = "layer IS NOT NULL AND layer_source <> 'annotation'"
        assert rows(trace, f"SELECT COUNT(*) FROM kernel WHERE {other}") == [(0,)]
    assert found == [(0, "annotation", 3), (1, "annotation", 3)]


def test_kernels_of_replays_have_layers_and_their_thread_was_off_the_cpu() -> None:
    with opened("qwen3-8b-2layers-graph-node.sqlite") as trace:
        found = rows(
            trace,
            """
            SELECT COUNT(DISTINCT kernel.layer), BOOL_AND(launch.name = 'cudaGraphLaunch')
            FROM kernel
            JOIN step USING (step_id)
            JOIN launch ON kernel.launch_id = launch.id
            WHERE kernel.in_graph
            GROUP BY step.number
            """,
        )
        (waits,) = trace.run("idle.scheduling", phase="decode").rows()
        off = "SELECT COUNT(*) FROM slice WHERE cat = 'off_cpu' AND dur < 0"
        assert rows(trace, off) == [(0,)]
    assert found == [(2, True)] * 5  # five steps that generate
    assert waits["cause"] == "host"
    assert 0 < waits["off_cpu_ns"] < waits["wait_ns"]


def test_a_replay_without_its_kernels_is_busy_time_and_reported() -> None:
    with opened("qwen3-8b-2layers-graph-whole.sqlite") as trace:
        replays = rows(trace, "SELECT ts, dur FROM kernel WHERE category = 'graph' ORDER BY ts")
        assert len(replays) == 5
        for ts, dur in replays:
            idle = f"SELECT COUNT(*) FROM gap WHERE ts < {ts + dur} AND ts + dur > {ts}"
            assert rows(trace, idle) == [(0,)]
        said = "SELECT value, total, note FROM ledger WHERE check_name LIKE 'graph replays%'"
        ((value, total, note),) = rows(trace, said)
        modes = "SELECT DISTINCT graph_mode FROM step WHERE phase = 'decode'"
        assert rows(trace, modes) == [(None,)]
        shown = [
            (row["kernels"], row["layers"], row["replay_ns"] > 0, row["busy_ns"] > 0)
            for row in trace.run("graphs.replays").rows()
        ]
    assert (value, total) == (5, 5)
    assert "--cuda-graph-trace=node" in note
    assert shown == [(None, None, True, True)] * 5


def test_processes_that_share_a_gpu_are_ranks() -> None:
    with opened("two-processes-graph-whole.sqlite") as trace:
        found = "SELECT rank, world_size, device_name FROM trace ORDER BY rank"
        assert rows(trace, found) == [(0, 2, "NVIDIA H200"), (1, 2, "NVIDIA H200")]
        # Four runs of three kernels, two replays, two random matrices, two states of the generator.
        per_rank = "SELECT rank, COUNT(*), COUNT(launch_id) FROM kernel GROUP BY rank ORDER BY rank"
        assert rows(trace, per_rank) == [(0, 18, 18), (1, 18, 18)]
        ranges = (
            "SELECT name, COUNT(*), COUNT(DISTINCT rank) FROM slice WHERE cat = 'nvtx' GROUP BY"
        )
        assert sorted(rows(trace, f"{ranges} 1")) == [("inner", 2, 2), ("outer, with comma", 2, 2)]


def test_payloads_are_the_arguments_of_calls_of_nccl() -> None:
    with opened("nccl-payloads.sqlite") as trace:
        found = rows(trace, "SELECT name, args FROM slice WHERE args LIKE '%payload%' ORDER BY ts")
        calls = {name: json.loads(args) for name, args in found}
        assert {args["domain"] for args in calls.values()} == {"NCCL"}
        init, reduced = (calls[n]["payload"] for n in ("ncclCommInitRankConfig", "ncclAllReduce"))
        assert (init["No. of ranks"], init["Rank"]) == (1, 0)
        assert reduced["Message size [bytes]"] == 2 * 2**20  # 2^20 of two bytes
        assert reduced["Reduction operation"] == "Sum"
        assert rows(trace, "SELECT name FROM instant WHERE cat = 'nvtx'") == [("a mark",)]
        source = "SELECT note FROM ledger WHERE check_name = 'rank of world size'"
        assert rows(trace, source) == [("rank from NCCL init in NVTX",)]


def test_metrics_are_counters_and_allocations_are_memory() -> None:
    with opened("metrics-and-memory.sqlite") as trace:
        ((count, metrics),) = rows(
            trace, "SELECT COUNT(*), COUNT(DISTINCT (name, unit)) FROM counter"
        )
        assert (count, metrics) == (14_982, 22)  # in GPU_METRICS and TARGET_INFO_GPU_METRICS
        highest = "SELECT unit, MAX(value) FROM counter WHERE name = 'GPC Clock Frequency' GROUP BY"
        ((unit, clock),) = rows(trace, f"{highest} unit")
        assert unit == "Hz"
        assert clock < 2_000_000_000  # an H200 runs at 1,980 MHz at most
        assert rows(trace, "SELECT name, COUNT(*) FROM instant GROUP BY ALL ORDER BY ALL") == [
            ("CUDA allocation", 200),
            ("CUDA free", 1),
        ]
        # Sums in the file: ten allocations, static variables, and one free of 2 MiB.
        last = "SELECT arg_max(allocated, ts) FROM memory WHERE device_type = 'cuda'"
        assert rows(trace, last) == [(144_835_584 + 219_639 - 2**21,)]


def test_ranges_own_the_kernels_launched_inside_them() -> None:
    name = "qwen3-8b-2layers-eager.sqlite"
    with in_memory(FOLDER / f"{name}.gz") as con:
        expected = con.execute("""
            SELECT COUNT(*), SUM(activity."end" - activity.start)
            FROM NVTX_EVENTS AS range
            JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call
                ON call.globalTid = range.globalTid
                AND call.start >= range.start AND call.start < range."end"
            JOIN (
                SELECT correlationId, start, "end" FROM CUPTI_ACTIVITY_KIND_KERNEL
                UNION ALL SELECT correlationId, start, "end" FROM CUPTI_ACTIVITY_KIND_MEMCPY
                UNION ALL SELECT correlationId, start, "end" FROM CUPTI_ACTIVITY_KIND_MEMSET
            ) AS activity USING (correlationId)
            WHERE range.text = 'execute_context_4(700)_generation_0(0)'
        """).fetchall()
    with opened(name) as trace:
        found = trace.run("annotations.gpu", pattern="execute_context_4%").rows()
    assert [(row["kernels"], row["gpu_ns"]) for row in found] == expected


# ---- Parquet files ----

_PARQUET = ("nccl-payloads", "qwen3-8b-2layers-nvtx-layers", "two-processes-graph-whole")
_UNSIGNED = {"globalPid", "globalTid", "correlationId", "contextId", "streamId", "domainId"}
_ALL = ["SELECT * EXCLUDE (path, sha256, size_bytes) FROM trace ORDER BY rank"]
_ALL += [f"FROM {table} ORDER BY ALL" for table in ("slice", "kernel", "instant", "counter")]


def parquet_export(tmp_path: Path, name: str) -> Path:
    """A folder as `nsys export --type parquetdir` writes it, with its types.

    Texts are of a type that has to be UTF-8, but payloads and some names are not.
    """
    (folder := tmp_path / f"{name}.parquetdir").mkdir()
    with in_memory(FOLDER / f"{name}.sqlite.gz") as con:
        con.text_factory = bytes
        tables = con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            cursor = con.execute(f"SELECT * FROM {table.decode()}")
            names, rows = [column[0] for column in cursor.description], cursor.fetchall()
            columns = {n: column([row[at] for row in rows], n) for at, n in enumerate(names)}
            pq.write_table(pa.table(columns), folder / f"{table.decode()}.parquet")
    return folder


def column(values: list[Any], name: str) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if bytes in kinds:
        valid, offsets, data = pa.array(values, pa.large_binary()).buffers()
        return pa.LargeStringArray.from_buffers(len(values), offsets, data, valid)
    if float in kinds:
        return pa.array(values, pa.float64())
    return pa.array(values, pa.uint64() if name in _UNSIGNED else pa.int64())


@pytest.mark.parametrize("name", _PARQUET)
def test_both_forms_of_an_export_are_the_same_in_the_database(tmp_path: Path, name: str) -> None:
    found = []
    for path in (FOLDER / f"{name}.sqlite.gz", parquet_export(tmp_path, name)):
        traceql.load(path, tmp_path / f"{path.suffix}.duckdb")
        with traceql.open(tmp_path / f"{path.suffix}.duckdb") as trace:
            found.append([trace.select(sql).rows() for sql in _ALL])
    assert found[0] == found[1]


def test_a_folder_of_folders_and_a_file_of_one_are_found(tmp_path: Path) -> None:
    """One file stands for each folder: that of its kernels, which no other recording has too."""
    folders = [parquet_export(tmp_path, name) for name in _PARQUET[:2]]
    expected = [folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet" for folder in folders]
    assert trace_files([tmp_path]) == expected
    assert trace_files([folders[0]]) == expected[:1]
    assert trace_files([folders[0] / "NVTX_EVENTS.parquet", folders[0]]) == expected[:1]


def test_a_folder_without_texts_or_with_a_damaged_table_is_refused(tmp_path: Path) -> None:
    folder = parquet_export(tmp_path, _PARQUET[1])
    damaged = folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-50])
    with pytest.raises(TraceqlError, match=rf"{damaged.name}: damaged Parquet"):
        traceql.load(folder, tmp_path / "x.duckdb")
    (folder / "StringIds.parquet").unlink()
    for path in (folder, tmp_path, folder / "NVTX_EVENTS.parquet"):
        with pytest.raises(TraceqlError, match=r"StringIds\.parquet is missing"):
            traceql.load(path, tmp_path / "x.duckdb")
    assert not (tmp_path / "x.duckdb").exists()


def test_other_parquet_files_are_no_export(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "kernel.parquet")
    with pytest.raises(TraceqlError, match="no traces in this folder"):
        traceql.load(tmp_path, tmp_path / "x.duckdb")
