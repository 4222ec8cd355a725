"""Recordings of one H200 by Nsight Systems, beside those of the same programs by PyTorch."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nsys_samples import FOLDER, in_memory

import traceql

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


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nsys")


def opened(databases: Path, name: str) -> traceql.Trace:
    database = databases / f"{name}.duckdb"
    if not database.exists():
        traceql.load([FOLDER / f"{name}.gz"], database)
    return traceql.open(database)


def rows(trace: traceql.Trace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trace.select(sql).rows()]


@pytest.fixture(params=["qwen3-8b-2layers-eager", "qwen3-8b-2layers-nvtx-layers"])
def pair(
    databases: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[traceql.Trace, traceql.Trace]]:
    """One program under Nsight Systems and under PyTorch's profiler."""
    nsys = opened(databases, f"{request.param}.sqlite")
    with nsys, opened(databases, f"{request.param}.pt.trace.json") as pytorch:
        yield nsys, pytorch


@pytest.mark.slow
def test_both_profilers_saw_the_same_kernels_in_the_same_layers_and_steps(
    pair: tuple[traceql.Trace, traceql.Trace],
) -> None:
    """Names are not compared: the demanglers of the two profilers spell templates differently."""
    nsys, pytorch = pair
    found = rows(nsys, _KERNELS)
    assert found == rows(pytorch, _KERNELS)
    assert {layer for _, _, _, _, layer, *_ in found} == {None, 0, 1}
    assert sorted(phase for (phase,) in rows(nsys, "SELECT phase FROM step")) == PHASES
    tokens = "SELECT SUM(context_tokens), SUM(generation_tokens) FROM step"
    assert rows(nsys, tokens) == [(300 + 200 + 128 + 72, 4 * 2)]


@pytest.mark.slow
def test_nothing_is_lost(databases: Path) -> None:
    """Against counts by sqlite3 alone."""
    for path in sorted(FOLDER.glob("*.sqlite.gz")):
        with in_memory(path) as con, opened(databases, path.name.removesuffix(".gz")) as trace:
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
                assert rows(trace, kept) == expected, (path.name, table)
            assert rows(trace, "SELECT check_name FROM ledger WHERE NOT ok") == []


@pytest.mark.slow
def test_layers_of_ranges_are_those_around_a_shared_module(databases: Path) -> None:
    """All layers share one rotary embedding, whose range has the name of layer 0."""
    with opened(databases, "qwen3-8b-2layers-nvtx-layers.sqlite") as trace:
        rope = "FROM kernel WHERE role = 'rope' GROUP BY ALL ORDER BY ALL"
        assert rows(trace, f"SELECT layer, layer_source, COUNT(*) {rope}") == [
            (0, "annotation", 3),
            (1, "annotation", 3),
        ]
        inside = """
            SELECT COUNT(*) FROM kernel WHERE layer IS NOT NULL AND layer_source <> 'annotation'
        """
        assert rows(trace, inside) == [(0,)]


@pytest.mark.slow
def test_kernels_of_replays_have_layers(databases: Path) -> None:
    with opened(databases, "qwen3-8b-2layers-graph-node.sqlite") as trace:
        found = rows(
            trace,
            """
            SELECT
                step.number,
                COUNT(DISTINCT kernel.layer),
                BOOL_AND(launch.name = 'cudaGraphLaunch')
            FROM kernel
            JOIN step USING (step_id)
            JOIN launch ON kernel.launch_id = launch.id
            WHERE kernel.in_graph
            GROUP BY ALL
            ORDER BY ALL
            """,
        )
    assert [layers for _, layers, _ in found] == [2] * 5  # five steps that generate
    assert all(launched for *_, launched in found)


@pytest.mark.slow
def test_a_replay_without_its_kernels_is_busy_time_and_told(databases: Path) -> None:
    with opened(databases, "qwen3-8b-2layers-graph-whole.sqlite") as trace:
        replays = rows(trace, "SELECT ts, dur FROM kernel WHERE category = 'graph' ORDER BY ts")
        assert len(replays) == 5
        for ts, dur in replays:
            idle = f"SELECT COUNT(*) FROM gap WHERE ts < {ts + dur} AND ts + dur > {ts}"
            assert rows(trace, idle) == [(0,)]
        said = "SELECT value, total, note FROM ledger WHERE check_name LIKE 'graph replays%'"
        ((value, total, note),) = rows(trace, said)
        assert (value, total) == (5, 5)
        assert "--cuda-graph-trace=node" in note
        modes = "SELECT DISTINCT graph_mode FROM step WHERE phase = 'decode'"
        assert rows(trace, modes) == [(None,)]
        replays = [
            (row["kernels"], row["layers"], row["replay_ns"] > 0, row["busy_ns"] > 0)
            for row in trace.run("graphs.replays").rows()
        ]
        assert replays == [(None, None, True, True)] * 5


@pytest.mark.slow
def test_processes_that_share_a_gpu_are_ranks(databases: Path) -> None:
    with opened(databases, "two-processes-graph-whole.sqlite") as trace:
        found = "SELECT rank, world_size, device_name FROM trace ORDER BY rank"
        assert rows(trace, found) == [(0, 2, "NVIDIA H200"), (1, 2, "NVIDIA H200")]
        # Four runs of three kernels, two replays, two random matrices, two states of the generator.
        per_rank = "SELECT rank, COUNT(*), COUNT(launch_id) FROM kernel GROUP BY rank ORDER BY rank"
        assert rows(trace, per_rank) == [(0, 18, 18), (1, 18, 18)]
        ranges = (
            "SELECT name, COUNT(*), COUNT(DISTINCT rank) FROM slice WHERE cat = 'nvtx' GROUP BY 1"
        )
        assert sorted(rows(trace, ranges)) == [("inner", 2, 2), ("outer, with comma", 2, 2)]


@pytest.mark.slow
def test_payloads_tell_what_nccl_was_asked(databases: Path) -> None:
    with opened(databases, "nccl-payloads.sqlite") as trace:
        told = rows(trace, "SELECT name, args FROM slice WHERE args LIKE '%payload%' ORDER BY ts")
        asked = [(name, json.loads(args)) for name, args in told]
        by_name = {name: args["payload"] for name, args in asked}
        assert {args["domain"] for _, args in asked} == {"NCCL"}
        assert by_name["ncclCommInitRankConfig"]["No. of ranks"] == 1
        assert by_name["ncclCommInitRankConfig"]["Rank"] == 0
        assert by_name["ncclAllReduce"]["Message size [bytes]"] == 2 * 2**20  # 2^20 of two bytes
        assert by_name["ncclAllReduce"]["Reduction operation"] == "Sum"
        assert rows(trace, "SELECT name FROM instant WHERE cat = 'nvtx'") == [("a mark",)]
        source = "SELECT note FROM ledger WHERE check_name = 'rank of world size'"
        assert rows(trace, source) == [("rank from NCCL init in NVTX",)]


@pytest.mark.slow
def test_metrics_are_counters(databases: Path) -> None:
    with opened(databases, "metrics-and-memory.sqlite") as trace:
        ((count, metrics),) = rows(
            trace, "SELECT COUNT(*), COUNT(DISTINCT (name, unit)) FROM counter"
        )
        assert (count, metrics) == (14_982, 22)  # in GPU_METRICS and TARGET_INFO_GPU_METRICS
        highest = """
            SELECT unit, MAX(value) FROM counter WHERE name = 'GPC Clock Frequency' GROUP BY unit
        """
        ((unit, clock),) = rows(trace, highest)
        assert unit == "Hz"
        assert clock < 2_000_000_000  # an H200 runs at 1,980 MHz at most
        assert rows(trace, "SELECT name, COUNT(*) FROM instant GROUP BY ALL ORDER BY ALL") == [
            ("CUDA allocation", 200),
            ("CUDA free", 1),
        ]
        # Sums in the file: ten allocations, static variables, and one free of 2 MiB.
        last = "SELECT arg_max(allocated, ts) FROM memory WHERE device_type = 'cuda'"
        assert rows(trace, last) == [(144_835_584 + 219_639 - 2**21,)]


def test_ranges_own_the_kernels_launched_inside_them(databases: Path) -> None:
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
    with opened(databases, name) as trace:
        found = trace.run("annotations.gpu", pattern="execute_context_4%").rows()
    assert [(row["kernels"], row["gpu_ns"]) for row in found] == expected


@pytest.mark.slow
def test_time_off_the_cpu_is_that_of_the_launching_thread(databases: Path) -> None:
    with opened(databases, "qwen3-8b-2layers-graph-node.sqlite") as trace:
        (found,) = trace.run("idle.scheduling", phase="decode").rows()
        assert found["cause"] == "host"
        assert 0 < found["off_cpu_ns"] < found["wait_ns"]
        off = "SELECT COUNT(*) FROM slice WHERE cat = 'off_cpu' AND dur < 0"
        assert rows(trace, off) == [(0,)]
