"""Rows of an export of Nsight Systems: which rank has them, what is left out, and what is told."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nsys_like import PID, Row, call, global_id, kernel, nvtx, write
from nsys_samples import read_export, unpacked

import traceql
from traceql.database.loading.discovery import trace_files

_TYPE = 281479271677952  # of the metrics of GPU 0, in a recording
Tables = Mapping[str, pa.Table]


def ranks(folder: Path, *rows: Row, sql: str = "", without: str = "") -> list[Tables]:
    """The tables of each rank of an export that is changed by SQL."""
    path = write(folder / "run.sqlite", *rows, without=without)
    with closing(sqlite3.connect(path)) as con, con:
        con.executescript(sql)
    return [part.tables for part in read_export(path)]


def checks(tables: Tables) -> list[tuple[str, int, int, bool | None]]:
    columns = ("check_name", "value", "total", "ok")
    return [tuple(row[name] for name in columns) for row in tables["load_check"].to_pylist()]


def slices(tables: Tables) -> list[tuple[Any, ...]]:
    return [(row["name"], row["ts"], row["dur"]) for row in tables["slice"].to_pylist()]


_EVENTS = (
    nvtx("forward", ts=0, dur=50),
    call(ts=5, dur=10, correlation=1),
    kernel("gemm", ts=20, dur=5, correlation=1),
)
_LOADED = [("forward", 0, 50), ("cudaLaunchKernel", 5, 10), ("gemm", 20, 5)]


@pytest.mark.parametrize(
    "odd",
    [
        kernel(ts=30, dur=-5, correlation=2),
        kernel(ts=30, dur=5, correlation=2, end=None),
        nvtx("sample", ts=60, dur=-40),
    ],
    ids=["kernel", "kernel without an end", "range"],
)
def test_an_event_that_ends_before_it_begins_is_left_out_and_counted(
    odd: Row, tmp_path: Path
) -> None:
    (tables,) = ranks(tmp_path, *_EVENTS, odd)
    assert slices(tables) == _LOADED
    assert checks(tables) == [("events that end before they begin", 1, 4, False)]
    assert sum(tables["count"]["events"].to_pylist()) == len(_EVENTS)


def test_a_kernel_with_an_impossible_grid_is_loaded_without_it(tmp_path: Path) -> None:
    sizes = {f"{what}{axis}": 2 for what in ("grid", "block") for axis in "XYZ"}
    odd = kernel("huge", ts=30, dur=5, **(sizes | {"gridX": 2**31}))
    (tables,) = ranks(tmp_path, *_EVENTS, kernel("usual", ts=40, dur=5, **sizes), odd)
    found = [(row["grid"], row["block"]) for row in tables["activity"].to_pylist()]
    assert found == [(None, None), (None, [2, 2, 2]), ([2, 2, 2], [2, 2, 2])]
    assert checks(tables) == [("kernels with an impossible grid or block", 1, 3, False)]


def test_messages_of_the_profiler_are_few_and_short(tmp_path: Path) -> None:
    texts = ["x" * 999, *(f"warning {n:02}" for n in range(20))]
    rows = [Row("DIAGNOSTIC_EVENT", {"severity": 2, "text": text}) for text in texts]
    (tables,) = ranks(tmp_path, *_EVENTS, *rows, rows[0])
    assert checks(tables) == [("warnings of the profiler", 22, 22, None)]
    (note,) = tables["load_check"]["note"].to_pylist()
    said = note.removeprefix("while it recorded: ").split("; ")
    expected = ["x" * 157 + "...", *(f"warning {n:02}" for n in range(9))]
    assert said == [*expected, "and 11 other messages"]


def test_a_process_without_a_gpu_launches_nothing(tmp_path: Path) -> None:
    """An API server calls CUDA, too, and its correlations are those of the worker."""
    (tables,) = ranks(
        tmp_path,
        call(ts=0, dur=1, correlation=1, pid=PID - 1),
        call(ts=10, dur=5, correlation=1),
        kernel("gemm", ts=20, dur=5, correlation=1),
    )
    assert tables["flow"].to_pylist() == [{"slice_out": 1, "slice_in": 2}]
    assert tables["slice"]["correlation"].to_pylist() == [None, 1, 1]


@pytest.mark.slow
def test_calls_without_their_kernels_fail_the_ledger(tmp_path: Path) -> None:
    path = unpacked("qwen3-8b-2layers-eager", tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
        ((calls,),) = con.execute(
            "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON nameId = id "
            "WHERE value LIKE '%LaunchKernel%' OR value LIKE '%LaunchCooperativeKernel%'"
        )
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as run:
        found = run.sql("SELECT check_name, value, total FROM ledger WHERE ok IS FALSE").rows()
    assert found == [
        {"check_name": "launches without a recorded kernel", "value": calls, "total": calls}
    ]
    assert calls > 100


def test_a_graph_of_which_nothing_was_recorded_fails_the_ledger(tmp_path: Path) -> None:
    graph = [call("cudaGraphLaunch_v10000", ts=30 * n, dur=5, correlation=n) for n in (2, 3)]
    inside = kernel("gemm", ts=70, dur=5, correlation=2, graphNodeId=1)
    (tables,) = ranks(tmp_path, *_EVENTS, *graph, inside)
    assert checks(tables) == [("graph launches without work", 1, 2, False)]


def test_of_the_forms_of_a_recording_in_a_folder_one_is_loaded(tmp_path: Path) -> None:
    names = ["a.sqlite", "a.sqlite.gz", "a.nsys-rep", "b.sqlite.gz", "b.nsys-rep", "c.nsys-rep"]
    for name in names:
        (tmp_path / name).write_bytes(b"SQLite format 3\0")
    (tmp_path / "a.parquetdir").mkdir()
    (tmp_path / "a.parquetdir" / "StringIds.parquet").write_bytes(b"PAR1")
    found = [file.name for file in trace_files([tmp_path])]
    assert found == ["a.sqlite", "b.sqlite.gz", "c.nsys-rep"]


def test_kernels_of_an_unknown_process_are_a_rank_of_their_own(tmp_path: Path) -> None:
    lost = kernel("lost", ts=200, dur=10, globalPid=None)
    unknown, known = ranks(tmp_path, kernel("gemm", ts=0, dur=10), kernel("a", ts=20, dur=5), lost)
    assert checks(unknown) == [("activities of an unknown process", 1, 3, False)]
    assert slices(unknown) == [("lost", 200, 10)]
    assert checks(known) == []


def test_ranges_and_marks_of_nvtx_are_loaded_and_other_types_are_counted(tmp_path: Path) -> None:
    (found,) = ranks(
        tmp_path,
        *_EVENTS,
        nvtx("pushed", ts=1, dur=2, eventType=70),
        nvtx("started", ts=2, dur=60, eventType=71),
        nvtx("a mark", ts=3, dur=0, eventType=65, end=None),
        nvtx("open", ts=4, dur=0, eventType=70, end=None),
        *(nvtx("x", ts=1, dur=2, eventType=number) for number in (33, 39, 75, 76, 72, 72, None)),
    )
    more = [("pushed", 1, 2), ("started", 2, 60)]
    assert slices(found) == sorted([*_LOADED, *more], key=lambda row: row[1])
    points = [(row["name"], row["args"]) for row in found["instant"].to_pylist()]
    assert points == [("a mark", None), ("open", '{"open": true}')]
    assert checks(found) == [("NVTX events of other types", 0, 3, None)]
    assert found["load_check"]["note"].to_pylist()[0].endswith("by type: None: 1, 72: 2")


def test_overhead_of_cupti_is_loaded_on_a_track_of_its_own(tmp_path: Path) -> None:
    thread = global_id(PID, PID)
    (found,) = ranks(
        tmp_path,
        *_EVENTS,
        Row("StringIds", {"id": 900, "value": "Command Buffer Full"}),
        sql=f"""
        CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (
            start, "end", eventClass, globalTid, correlationId, nameId, overheadType
        );
        INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (10, 30, 103, {thread}, 1, 900, 8);
        CREATE TABLE PROFILER_OVERHEAD (start, "end", globalTid, nameId);
        INSERT INTO PROFILER_OVERHEAD VALUES (40, 41, {thread}, 900);
        """,
    )
    (cupti, nsys) = (row for row in found["slice"].to_pylist() if row["cat"] == "overhead")
    assert (cupti["name"], cupti["ts"], cupti["dur"]) == ("Command Buffer Full", 10, 20)
    assert cupti["args"] == '{"correlationId":1,"overheadType":8}'
    assert (cupti["parent"], nsys["parent"]) == (None, 0)
    assert checks(found) == []


@pytest.mark.parametrize("columns", ['start INTEGER, "end" INTEGER', "rawTimestamp INTEGER"])
def test_rows_of_any_other_table_of_events_are_counted(columns: str, tmp_path: Path) -> None:
    sql = f'CREATE TABLE "VULKAN ""API" ({columns}); INSERT INTO "VULKAN ""API" DEFAULT VALUES;'
    (found,) = ranks(tmp_path, *_EVENTS, sql=sql)
    assert checks(found) == [('table VULKAN "API', 0, 1, None)]


def test_a_view_in_the_place_of_a_table_is_read_and_others_are_counted(tmp_path: Path) -> None:
    moved = """
        ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO kept;
        CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM kept WHERE start < 1000;
        CREATE VIEW long_kernel AS SELECT * FROM kept;
        """
    (found,) = ranks(tmp_path, *_EVENTS, sql=moved)
    assert slices(found) == _LOADED
    assert checks(found) == [("table kept", 0, 1, None), ("views", 0, 1, None)]


# ---- GPU metrics ----


def metric(number: int, text: str, gpu: int = 0) -> Row:
    about = {"typeId": _TYPE + gpu, "metricId": number, "metricName": text}
    return Row("TARGET_INFO_GPU_METRICS", about)


def sample(ts: int, value: int, gpu: int = 0, number: int = 0) -> Row:
    about = {"timestamp": ts, "typeId": _TYPE + gpu, "metricId": number, "value": value}
    return Row("GPU_METRICS", about)


def device(gpu: int, cuda: int, pid: int) -> Row:
    return Row("TARGET_INFO_CUDA_DEVICE", {"gpuId": gpu, "cudaId": cuda, "pid": pid})


def counters(tables: Tables) -> list[tuple[Any, ...]]:
    """Track, name, unit, time and value of each sample."""
    tracks = tables["track"]["process_name"].to_pylist()
    rows = tables["counter"].to_pylist()
    return [(tracks[r["track"]], r["name"], r["unit"], r["ts"], r["value"]) for r in rows]


_SAMPLES: Sequence[Row] = [
    *(metric(0, "SM Issue [Throughput %]", gpu=gpu) for gpu in (3, 5)),
    *(sample(10, 30, gpu=3), sample(10, 50, gpu=5), sample(20, 31, gpu=3)),
]
_TWO_WORKERS = [  # both call their GPU device 0
    *(kernel("gemm", ts=20, dur=5, pid=pid) for pid in (201, 202)),
    *_SAMPLES,
]
_OF_3 = [
    ("GPU metrics of GPU 3", "SM Issue", "Throughput %", 10, 30),
    ("GPU metrics of GPU 3", "SM Issue", "Throughput %", 20, 31),
]
_OF_5 = [("GPU metrics of GPU 5", "SM Issue", "Throughput %", 10, 50)]


def test_samples_are_with_the_rank_that_ran_on_their_gpu(tmp_path: Path) -> None:
    first, second = ranks(tmp_path, *_TWO_WORKERS, device(5, 0, 201), device(3, 0, 202))
    assert (counters(first), counters(second)) == (_OF_5, _OF_3)
    assert (checks(first), checks(second)) == ([], [])
    for tables, expected in ((first, 1), (second, 2)):
        counts = [row for row in tables["count"].to_pylist() if row["phase"] == "counter"]
        assert counts == [{"phase": "counter", "cat": "", "events": expected, "dur": 0}]


def test_samples_of_a_gpu_of_no_rank_have_a_track_of_their_own(tmp_path: Path) -> None:
    first, second = ranks(tmp_path, *_TWO_WORKERS, device(5, 0, 201))
    assert sorted(counters(first)) == sorted(_OF_3 + _OF_5)
    assert counters(second) == []
    assert checks(first) == [("samples of GPUs of no rank", 2, 3, None)]
    assert "these GPUs: 3;" in first["load_check"]["note"].to_pylist()[0]


def test_without_a_table_of_devices_those_of_one_process_are_its_gpus(tmp_path: Path) -> None:
    kernels = [kernel("gemm", ts=20, dur=5, deviceId=number) for number in (0, 1)]
    gpus = [Row("TARGET_INFO_GPU", {"id": 5 - 2 * n, "cuDevice": n}) for n in (0, 1)]
    rows = [*kernels, *gpus, *_SAMPLES]
    first, second = ranks(tmp_path, *rows, without="TARGET_INFO_CUDA_DEVICE")
    assert (counters(first), counters(second)) == (_OF_5, _OF_3)


def test_two_metrics_of_one_name_stay_apart(tmp_path: Path) -> None:
    names = [metric(number, "SM Issue [Avg]") for number in (0, 1)]
    samples = [sample(10, 30 + 10 * number, number=number) for number in (0, 1, 2)]
    (tables,) = ranks(tmp_path, kernel(ts=20, dur=5), device(0, 0, 100), *names, *samples)
    assert [row[1:] for row in counters(tables)] == [
        ("SM Issue (0)", "Avg", 10, 30),
        ("SM Issue (1)", "Avg", 10, 40),
        ("metric 2", None, 10, 50),
    ]
