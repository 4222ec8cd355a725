"""Rows of an export of Nsight Systems that a rank must not take at their word."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nsys_like import PID, Row, call, kernel, nvtx, write
from nsys_samples import read_export, unpacked

import traceql
from traceql.database.loading.discovery import trace_files

SERVER, WORKER = PID - 1, PID


def ranks(folder: Path, *rows: Row) -> list[Mapping[str, pa.Table]]:
    """The tables of each rank; these exports have one window."""
    path = write(folder / "run.sqlite", *rows)
    return [part.tables for part in read_export(path)]


def remarks(tables: Mapping[str, pa.Table]) -> dict[str, tuple[int, int, bool | None]]:
    return {
        r["check_name"]: (r["value"], r["total"], r["ok"]) for r in tables["load_check"].to_pylist()
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


def test_messages_of_the_profiler_are_few_short_and_without_values(tmp_path: Path) -> None:
    said = [
        "x" * 1000,
        "environment: HF_TOKEN=hf_abc rest",
        *(f"warning {n:02}" for n in range(20)),
    ]
    rows = [Row("DIAGNOSTIC_EVENT", {"severity": 2, "text": text}) for text in said]
    (tables,) = ranks(tmp_path, *_EVENTS, *rows)
    (remark,) = tables["load_check"].to_pylist()
    assert (remark["check_name"], remark["value"]) == ("warnings of the profiler", len(said))
    first, *others = remark["note"].removeprefix("while it recorded: ").split("; ")
    assert first == "environment: HF_TOKEN=..."
    assert others == [*(f"warning {n:02}" for n in range(9)), "and 12 other messages"]
    (tables,) = ranks(tmp_path / "long", *_EVENTS, rows[0])
    assert tables["load_check"].to_pylist()[0]["note"].endswith(": " + "x" * 157 + "...")


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


def test_a_graph_of_which_nothing_was_recorded_fails_the_ledger(tmp_path: Path) -> None:
    graph = [call("cudaGraphLaunch_v10000", ts=30 * n, dur=5, correlation=n) for n in (2, 3)]
    inside = kernel("gemm", ts=70, dur=5, correlation=2, graphNodeId=1)
    (tables,) = ranks(tmp_path, *_EVENTS, *graph, inside)
    assert remarks(tables)["graph launches without work"] == (1, 2, False)


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


def test_kernels_of_an_unknown_process_are_told_as_a_rank_of_their_own(tmp_path: Path) -> None:
    lost = kernel("gemm", ts=200, dur=10)
    lost.values["globalPid"] = None
    unknown, known = ranks(tmp_path, kernel("gemm", ts=0, dur=10), kernel("a", ts=20, dur=5), lost)
    told = "activities of an unknown process"
    assert remarks(unknown)[told] == (1, 3, False)
    assert durations(unknown) == [10]
    assert told not in remarks(known)
