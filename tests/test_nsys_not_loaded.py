"""What of an export of Nsight Systems is not loaded: the ledger counts it."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nsys_like import PID, Row, call, global_id, kernel, nvtx, write
from nsys_samples import read_export

_THREAD = global_id(PID, PID)
_EVENTS = (
    nvtx("forward", ts=0, dur=50),
    call(ts=5, dur=10, correlation=1),
    kernel("gemm", ts=20, dur=5, correlation=1),
)


def tables(folder: Path, *rows: Row, sql: str = "") -> Mapping[str, pa.Table]:
    """The tables of the only rank of an export that is changed by SQL."""
    path = write(folder / "run.sqlite", *_EVENTS, *rows)
    with closing(sqlite3.connect(path)) as con, con:
        con.executescript(sql)
    (part,) = read_export(path)
    return part.tables


def remarks(found: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    return [
        (r["check_name"], r["value"], r["total"], r["ok"]) for r in found["load_check"].to_pylist()
    ]


def slices(found: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    return [(row["name"], row["ts"], row["dur"]) for row in found["slice"].to_pylist()]


_LOADED = [("forward", 0, 50), ("cudaLaunchKernel", 5, 10), ("gemm", 20, 5)]


def test_ranges_and_marks_of_nvtxt_are_those_of_nvtx(tmp_path: Path) -> None:
    found = tables(
        tmp_path,
        nvtx("pushed", ts=1, dur=2, eventType=70),
        nvtx("started", ts=2, dur=60, eventType=71),
        nvtx("a mark", ts=3, dur=0, eventType=65, end=None),
        nvtx("open", ts=4, dur=0, eventType=70, end=None),
    )
    assert slices(found) == sorted([*_LOADED, ("pushed", 1, 2), ("started", 2, 60)], key=_start)
    points = [(row["name"], row["args"]) for row in found["instant"].to_pylist()]
    assert points == [("a mark", None), ("open", '{"open": true}')]
    assert remarks(found) == []


def _start(row: tuple[Any, ...]) -> Any:
    return row[1]


def test_nvtx_events_of_other_types_are_counted_and_names_are_not(tmp_path: Path) -> None:
    types = (33, 39, 75, 76, 72, 72, None)
    found = tables(tmp_path, *(nvtx("x", ts=1, dur=2, eventType=number) for number in types))
    assert remarks(found) == [("NVTX events of other types", 0, 3, None)]
    assert found["load_check"]["note"].to_pylist()[0].endswith("by type: None: 1, 72: 2")


def test_overhead_of_cupti_is_loaded_on_a_track_of_its_own(tmp_path: Path) -> None:
    found = tables(
        tmp_path,
        Row("StringIds", {"id": 900, "value": "Command Buffer Full"}),
        sql=f"""
        CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (
            start, "end", eventClass, globalTid, correlationId, nameId, overheadType
        );
        INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (10, 30, 103, {_THREAD}, 1, 900, 8);
        CREATE TABLE PROFILER_OVERHEAD (start, "end", globalTid, nameId);
        INSERT INTO PROFILER_OVERHEAD VALUES (40, 41, {_THREAD}, 900);
        """,
    )
    (cupti, nsys) = (row for row in found["slice"].to_pylist() if row["cat"] == "overhead")
    assert (cupti["name"], cupti["ts"], cupti["dur"]) == ("Command Buffer Full", 10, 20)
    assert cupti["args"] == '{"correlationId":1,"overheadType":8}'
    assert (cupti["parent"], nsys["parent"]) == (None, 0)
    counts = [row["events"] for row in found["count"].to_pylist() if row["cat"] == "overhead"]
    assert counts == [2]
    assert found["slice"]["cat"].chunk(0).dictionary.to_pylist().count("overhead") == 1
    assert remarks(found) == []


@pytest.mark.parametrize(
    "columns",
    ['start INTEGER, "end" INTEGER, nameId INTEGER', "timestamp INTEGER", "rawTimestamp INTEGER"],
)
def test_rows_of_any_other_table_of_events_are_counted(columns: str, tmp_path: Path) -> None:
    sql = f'CREATE TABLE "VULKAN ""API" ({columns}); INSERT INTO "VULKAN ""API" DEFAULT VALUES;'
    assert remarks(tables(tmp_path, sql=sql)) == [('table VULKAN "API', 0, 1, None)]


def test_a_view_in_the_place_of_a_table_is_read_and_others_are_told(tmp_path: Path) -> None:
    moved = """
        ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO kept;
        CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM kept WHERE start < 1000;
        CREATE VIEW long_kernel AS SELECT * FROM kept;
        ALTER TABLE NVTX_EVENTS RENAME TO marked;
        CREATE VIEW NVTX_EVENTS AS SELECT * FROM marked;
        """
    found = tables(tmp_path, sql=moved)
    assert slices(found) == _LOADED
    assert remarks(found) == [
        ("table kept", 0, 1, None),
        ("table marked", 0, 3 - 2, None),
        ("views", 0, 1, None),
    ]
