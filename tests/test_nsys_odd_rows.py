"""Rows of an export of Nsight Systems that a rank must not take at their word."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nsys_like import PID, Row, call, global_id, kernel, nvtx, write
from nsys_samples import FOLDER, unpacked

import traceql
from traceql.loading.discovery import trace_files
from traceql.reader.nsys.processes import pid_of
from traceql.reader.nsys.read import read_export

SERVER, WORKER = PID - 1, PID


def ranks(folder: Path, *rows: Row) -> list[Mapping[str, pa.Table]]:
    """The tables of each rank; these exports have one window."""
    path = write(folder / "run.sqlite", *rows)
    return [part.tables for part in read_export(path)]


def remarks(tables: Mapping[str, pa.Table]) -> dict[str, tuple[int, int, bool | None]]:
    return {
        r["check_name"]: (r["value"], r["total"], r["ok"]) for r in tables["remark"].to_pylist()
    }


def durations(tables: Mapping[str, pa.Table]) -> Sequence[int]:
    found: list[int] = tables["slice"]["dur"].to_pylist()
    return found


def launches(tables: Mapping[str, pa.Table]) -> list[tuple[Any, Any]]:
    """The process of the call and the name of the kernel at the ends of each arrow."""
    slices = tables["slice"].to_pylist()
    rows = tables["flow"].to_pylist()
    return [(slices[r["slice_out"]]["pid"], slices[r["slice_in"]]["name"]) for r in rows]


_EVENTS = [
    call(ts=0, dur=10, correlation=1),
    kernel(ts=20, dur=5, correlation=1),
    nvtx("forward", ts=0, dur=50),
]


@pytest.mark.parametrize(
    "odd",
    [
        kernel(ts=30, dur=-5, correlation=2),
        kernel(ts=30, dur=5, correlation=2, end=None),
        call(ts=12, dur=-1, correlation=2),
        nvtx("sample", ts=60, dur=-40),
    ],
    ids=["kernel", "kernel without an end", "call", "range"],
)
def test_an_event_that_ends_before_it_begins_is_left_out_and_told(odd: Row, tmp_path: Path) -> None:
    (tables,) = ranks(tmp_path, *_EVENTS, odd)
    assert sorted(durations(tables)) == [5, 10, 50]
    assert remarks(tables)["events that end before they begin"] == (1, 4, False)
    assert sum(tables["count"]["events"].to_pylist()) == len(_EVENTS)


def test_a_kernel_with_an_impossible_grid_is_loaded_without_it(tmp_path: Path) -> None:
    sizes = {f"{what}{axis}": 2 for what in ("grid", "block") for axis in "XYZ"}
    odd = kernel("huge", ts=30, dur=5, **(sizes | {"gridX": 2**31}))
    (tables,) = ranks(tmp_path, *_EVENTS, kernel("usual", ts=40, dur=5, **sizes), odd)
    found = [(row["grid"], row["block"]) for row in tables["activity"].to_pylist()]
    assert found == [(None, None), (None, [2, 2, 2]), ([2, 2, 2], [2, 2, 2])]
    assert remarks(tables) == {"kernels with an impossible grid or block": (1, 3, False)}


@pytest.mark.slow
def test_processes_of_two_machines_with_one_id_are_two_ranks(tmp_path: Path) -> None:
    other = 2 << 48 | PID << 24
    path = write(
        tmp_path / "run.sqlite",
        *_EVENTS,
        call(ts=5, dur=3, correlation=1, globalTid=other | PID),
        kernel("softmax", ts=20, dur=6, correlation=1, globalPid=other),
    )
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        for rank, kernels in {0: ["nvjet_sm90_gemm"], 1: ["softmax"]}.items():
            with trace.perfetto(rank=rank) as tp:
                rows = tp.query("SELECT name FROM slice WHERE category = 'kernel'")
                assert [row.name for row in rows] == kernels


def test_without_such_events_nothing_is_told(tmp_path: Path) -> None:
    (tables,) = ranks(tmp_path, *_EVENTS)
    assert remarks(tables) == {}


def test_messages_of_the_profiler_are_few_short_and_without_values(tmp_path: Path) -> None:
    said = [
        "x" * 1000,
        "environment: HF_TOKEN=hf_abc rest",
        *(f"warning {n:02}" for n in range(20)),
    ]
    rows = [Row("DIAGNOSTIC_EVENT", {"severity": 2, "text": text}) for text in said]
    (tables,) = ranks(tmp_path, *_EVENTS, *rows)
    (remark,) = tables["remark"].to_pylist()
    assert (remark["check_name"], remark["value"]) == ("warnings of the profiler", len(said))
    first, *others = remark["note"].removeprefix("while it recorded: ").split("; ")
    assert first == "environment: HF_TOKEN=..."
    assert others == [*(f"warning {n:02}" for n in range(9)), "and 12 other messages"]
    (tables,) = ranks(tmp_path / "long", *_EVENTS, rows[0])
    assert tables["remark"].to_pylist()[0]["note"].endswith(": " + "x" * 157 + "...")


def test_a_process_without_a_gpu_launches_nothing(tmp_path: Path) -> None:
    """An API server calls CUDA, too, and its correlations are those of the worker."""
    (tables,) = ranks(
        tmp_path,
        call(ts=0, dur=1, correlation=1, pid=SERVER),
        call(ts=10, dur=5, correlation=1, pid=WORKER),
        kernel("gemm", ts=20, dur=5, correlation=1, pid=WORKER),
    )
    assert launches(tables) == [(WORKER, "gemm")]
    assert tables["slice"]["correlation"].to_pylist() == [None, 1, 1]


@pytest.mark.slow
def test_kernels_of_a_worker_keep_their_calls_where_those_of_another_were_not_recorded(
    tmp_path: Path,
) -> None:
    """Both workers replay the same graphs, so their correlations are the same."""
    whole = traceql.load(FOLDER / "two-processes-graph-whole.sqlite.gz", tmp_path / "whole.duckdb")
    path = unpacked("two-processes-graph-whole", tmp_path / "cut.sqlite")
    kernels, graphs = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    with closing(sqlite3.connect(path)) as con, con:
        first, second = sorted(con.execute(f"SELECT DISTINCT globalPid FROM {kernels}"))
        for table in (kernels, graphs):
            con.execute(f"DELETE FROM {table} WHERE globalPid = ?", second)
    traceql.load(path, tmp_path / "cut.duckdb")
    calls = """
        SELECT kernel.dur, kernel.name, call.pid, kernel.ts - call.ts AS after_ns
        FROM kernel
        LEFT JOIN slice AS call ON kernel.launch_id = call.id
        WHERE kernel.rank = 0
        ORDER BY kernel.ts
    """
    failed = "SELECT check_name, total - value AS missing, note FROM ledger WHERE ok IS FALSE"
    with traceql.open(whole.database) as trace:
        expected = trace.select(calls).rows()
        assert {row["pid"] for row in expected} == {pid_of(*first)}
        assert trace.select(failed).rows() == []
    with traceql.open(tmp_path / "cut.duckdb") as trace:
        assert trace.select(calls).rows() == expected
        lost = {row["check_name"]: row for row in trace.select(failed)}
        launched = lost["launches with recorded kernels"]
        assert launched["missing"] > 0
        assert f"The kernels of process {pid_of(*second)} were not recorded" in launched["note"]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 1], ids=["no GPU activity", "copies alone"])
def test_calls_without_their_kernels_fail_the_ledger(kept: int, tmp_path: Path) -> None:
    path = unpacked("qwen3-8b-2layers-eager", tmp_path / "run.sqlite")
    tables = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")[: 1 if kept else None]
    with closing(sqlite3.connect(path)) as con, con:
        for table in tables:
            con.execute(f"DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_{table}")
        ((calls,),) = con.execute(
            "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON nameId = id "
            "WHERE value LIKE '%LaunchKernel%' OR value LIKE '%LaunchCooperativeKernel%'"
        )
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        found = trace.sql("SELECT check_name, value, total FROM ledger WHERE ok IS FALSE").rows()
    assert [row["check_name"] for row in found] == ["launches with recorded kernels"]
    assert (found[0]["value"], found[0]["total"]) == (0, calls)
    assert calls > 100


@pytest.mark.parametrize("size", [0, -5, 2**31])
def test_a_grid_that_cannot_be_is_unknown_and_told(size: int, tmp_path: Path) -> None:
    (tables,) = ranks(tmp_path, *_EVENTS, kernel("odd", ts=30, dur=5, correlation=2, gridX=size))
    assert tables["activity"]["grid"].to_pylist()[-1] is None
    assert [ok for _, _, ok in remarks(tables).values()] == [False]


def test_bytes_in_place_of_a_name_are_no_name(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_EVENTS)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("UPDATE NVTX_EVENTS SET text = x'fffe41', textId = NULL")
    (part,) = read_export(path)
    assert part.tables["slice"].num_rows == 3


def test_calls_of_a_thread_that_launches_on_two_gpus_are_told(tmp_path: Path) -> None:
    calls = [call(ts=10 * n, dur=5, correlation=n) for n in range(1, 4)]
    devices = [0, 0, 1]
    kernels = [
        kernel("gemm", ts=100 * n, dur=5, correlation=n, deviceId=device)
        for n, device in enumerate(devices, 1)
    ]
    first, second = ranks(tmp_path, *calls, *kernels)
    assert [len(launches(first)), len(launches(second))] == [2, 0]
    assert "launch calls with another rank" not in remarks(first)
    assert remarks(second)["launch calls with another rank"] == (0, 1, None)


def test_a_graph_of_which_nothing_was_recorded_fails_the_ledger(tmp_path: Path) -> None:
    graph = [call("cudaGraphLaunch_v10000", ts=30 * n, dur=5, correlation=n) for n in (2, 3)]
    inside = kernel("gemm", ts=70, dur=5, correlation=2, graphNodeId=1)
    (tables,) = ranks(tmp_path, *_EVENTS, *graph, inside)
    assert remarks(tables)["graph launches without work"] == (1, 2, False)


@pytest.mark.slow
def test_a_step_whose_graphs_left_nothing_has_no_graph_mode(tmp_path: Path) -> None:
    step = "execute_context_0(0)_generation_1(1)"
    path = write(
        tmp_path / "run.sqlite",
        *(nvtx(step, ts=ts, dur=90) for ts in (0, 100)),
        call("cudaGraphLaunch_v10000", ts=10, dur=5, correlation=1),
        call(ts=20, dur=5, correlation=2),
        kernel("sample", ts=30, dur=5, correlation=2),
        call(ts=120, dur=5, correlation=3),
        kernel("sample", ts=130, dur=5, correlation=3),
    )
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        modes = trace.sql("SELECT graph_mode FROM step ORDER BY ts").rows()
    assert [row["graph_mode"] for row in modes] == [None, "none"]


def test_a_table_without_names_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_EVENTS)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute('CREATE TABLE OSRT_API (start INTEGER, "end" INTEGER, globalTid INTEGER)')
        con.execute("INSERT INTO OSRT_API VALUES (5, 9, ?)", [global_id(PID, PID)])
    (part,) = read_export(path)
    assert sorted(durations(part.tables)) == [4, 5, 10, 50]


def test_of_the_forms_of_a_recording_in_a_folder_one_is_loaded(tmp_path: Path) -> None:
    names = ["a.sqlite", "a.sqlite.gz", "a.nsys-rep", "b.sqlite.gz", "b.nsys-rep", "c.nsys-rep"]
    for name in names:
        (tmp_path / name).write_bytes(b"SQLite format 3\0")
    (tmp_path / "a.parquetdir").mkdir()
    (tmp_path / "a.parquetdir" / "StringIds.parquet").write_bytes(b"PAR1")
    found = [file.name for file in trace_files([tmp_path])]
    assert found == ["a.sqlite", "b.sqlite.gz", "c.nsys-rep"]


@pytest.mark.slow
def test_a_recording_is_not_loaded_twice(tmp_path: Path) -> None:
    for name in ("one.sqlite", "other.sqlite"):
        write(tmp_path / name, *_EVENTS)
    (tmp_path / "other.sqlite").open("ab").write(bytes(4096))  # another file of the same content
    with pytest.raises(traceql.TraceqlError, match="seem to be the same recording"):
        traceql.load(tmp_path, tmp_path / "run.duckdb")


@pytest.mark.slow
def test_the_name_of_a_file_with_several_ranks_is_none_of_them(tmp_path: Path) -> None:
    packed = (FOLDER / "two-processes-graph-whole.sqlite.gz").read_bytes()
    (tmp_path / "node_rank0.sqlite.gz").write_bytes(packed)
    traceql.load(tmp_path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        told = "SELECT rank, note FROM ledger WHERE check_name = 'rank of world size' ORDER BY rank"
        assert [tuple(row.values()) for row in trace.select(told)] == [
            (0, "rank from order of processes"),
            (1, "rank from order of processes"),
        ]


def test_kernels_of_an_unknown_process_are_told_as_a_rank_of_their_own(tmp_path: Path) -> None:
    lost = kernel("gemm", ts=200, dur=10)
    lost.values["globalPid"] = None
    unknown, known = ranks(tmp_path, kernel("gemm", ts=0, dur=10), kernel("a", ts=20, dur=5), lost)
    told = "activities of an unknown process"
    assert remarks(unknown)[told] == (1, 3, False)
    assert durations(unknown) == [10]
    assert told not in remarks(known)
