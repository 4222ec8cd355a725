"""Odd rows, columns and files of rocprofv3: what becomes of them, and what a message says."""

import gzip
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rocpd_like import PID, Recorded, call, copy, kernel, suffix, write_csv, write_json
from rocpd_like import write_rocpd as write_database

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.formats.rocprof.read import read_recording
from traceql.readers.formats.rocprof.recording import Process
from traceql.readers.formats.rocprof.rocpd import read_rocpd
from traceql.readers.registry import is_superseded, reader_of, whole

_ROWS = [
    call(ts=1010, dur=5, correlation=2),
    kernel(ts=1020, dur=30, correlation=2),
    copy("DtoH", ts=1060, dur=5, correlation=3, bytes=64),
]
_ENDING = suffix(PID)


def written(folder: Path, form: str, *records: Any, name: str = f"{PID}_results") -> Path:
    process = Recorded(PID, records or _ROWS)
    if form == "rocpd":
        return write_database(folder / f"{name}.db", [process])
    if form == "json":
        return write_json(folder / f"{name}.json", [process])
    return write_csv(folder, process)


def rocpd(folder: Path, *statements: str) -> Process:
    path = written(folder, "rocpd")
    with closing(sqlite3.connect(path)) as con, con:
        for one in statements:
            con.execute(one)
    return read_rocpd(path).processes[0]


def counters(folder: Path, *lines: str) -> Path:
    """A file of counters, and no other."""
    path = folder / f"{PID}_counter_collection.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    """What the reader makes of a file with one rank."""
    (rank,) = read_recording(path)
    return {name: table.to_pylist() for name, table in rank.tables.items()}


def failed(found: dict[str, list[dict[str, Any]]]) -> list[tuple[str, int, int]]:
    rows = [
        (r["check_name"], r["value"], r["total"]) for r in found["load_check"] if r["ok"] is False
    ]
    return sorted(rows)


def counted_matches(found: dict[str, list[dict[str, Any]]]) -> bool:
    """Whether as many events and ns are in the tables as were counted."""
    events, dur = Counter[str](), Counter[str]()
    for row in found["slice"]:
        events[row["cat"]] += 1
        dur[row["cat"]] += row["dur"]
    expected = {(row["cat"], row["events"], row["dur"]) for row in found["count"] if row["cat"]}
    return {(cat, n, dur[cat]) for cat, n in events.items()} == expected


_ODD = [call(ts=2000, dur=-5), kernel(ts=2000, dur=-30), copy(ts=2000, dur=-1)]


@pytest.mark.parametrize("form", ["rocpd", "json", "csv"])
def test_an_event_that_ends_before_it_begins_is_counted_and_not_loaded(
    form: str, tmp_path: Path
) -> None:
    found = tables(written(tmp_path, form, *_ROWS, *_ODD))
    assert failed(found) == [("records that end before they begin", 3, 6)]
    assert len(found["slice"]) == 3
    assert counted_matches(found)


_BLOCK = (64, 1, 1)


@pytest.mark.parametrize("form", ["rocpd", "json", "csv"])
def test_sizes_that_cannot_be_are_null_and_told(form: str, tmp_path: Path) -> None:
    odd = [
        kernel(ts=2000, dur=5, grid=(0, 1, 1), block=_BLOCK),
        kernel(ts=2010, dur=5, grid=(-2, 1, 1), block=_BLOCK),
        kernel(ts=2020, dur=5, grid=(2, 1, 1), block=(0, 1, 1)),
        copy("DtoH", ts=2030, dur=5, bytes=-8),
    ]
    found = tables(written(tmp_path, form, *_ROWS, *odd))
    sizes = [(row["grid"], row["block"], row["bytes"]) for row in found["activity"]]
    small = None if form == "csv" else 64  # its copies have no size
    assert sizes == [
        ([1, 1, 1], [64, 1, 1], None),
        (None, None, small),
        *[(None, [64, 1, 1], None)] * 2,
        *[(None, None, None)] * 2,
    ]
    assert failed(found) == [
        *([] if form == "csv" else [("copies of fewer than 0 bytes", 1, 2)]),
        ("kernels with an impossible grid or block", 3, 4),
    ]


@pytest.mark.parametrize(
    ("described", "found"),
    [
        pytest.param("id <> 2", [("kernels of unknown agents", 1, 2)], id="one is not described"),
        pytest.param("FALSE", [("kernels of unknown agents", 2, 2)], id="none is described"),
        pytest.param("TRUE", [], id="all are described"),
    ],
)
def test_kernels_of_agents_that_no_table_describes_are_told(
    described: str, found: list[Any], tmp_path: Path
) -> None:
    """Kernels of the first GPU, whose agent has the number 2, and of the second one."""
    path = written(tmp_path, "rocpd", *_ROWS, kernel(ts=2000, dur=5, device=1))
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f'DELETE FROM "rocpd_info_agent{_ENDING}" WHERE NOT ({described})')
    remarks = [
        row for rank in read_recording(path) for row in rank.tables["load_check"].to_pylist()
    ]
    assert failed({"load_check": remarks}) == found


_COUNTERS = "Correlation_Id,Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value"
_TIMES = "Start_Timestamp,End_Timestamp"


@pytest.mark.parametrize(
    ("value", "expected", "unread"),
    [("7.5", 9.5, []), ("n/a", None, []), ("many", None, [("records that cannot be read", 1, 1)])],
)
def test_a_counter_without_a_value_is_null(
    value: str, expected: float | None, unread: list[Any], tmp_path: Path
) -> None:
    rows = [
        f"1,1,Agent 2,gemm,WAVES,{v},{t}"
        for v, t in ((value, "10,20"), ("2", "10,20"), (3, "20,10"))
    ]
    found = tables(counters(tmp_path, f"{_COUNTERS},{_TIMES}", *rows))
    assert [row["value"] for row in found["counter"]] == [expected]
    assert failed(found) == sorted([*unread, ("records that end before they begin", 1, 2)])
    assert [row["events"] for row in found["count"]] == [1, 1]  # a kernel and a sample


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        (f"{_COUNTERS},{_TIMES}", '1,1,Agent 2,gemm,WAVES,"16384,5",10,20', "'16384,5'"),
        (_COUNTERS, "1,1,Agent 2,gemm,WAVES,7", "no times"),
        (f"{_COUNTERS},Start_Timestamp", "1,1,Agent 2,gemm,W,7,10", "no column end_timestamp"),
        (
            f"{_COUNTERS},{_TIMES},kernel_name",
            "1,1,Agent 2,gemm,W,7,10,20,a",
            "'kernel_name' twice",
        ),
    ],
)
def test_counters_that_cannot_be_read_are_told(
    header: str, row: str, said: str, tmp_path: Path
) -> None:
    path = counters(tmp_path, header, row)
    with pytest.raises(TraceCorrupt, match=said) as refused:
        tables(path)
    assert str(refused.value).count(path.name) == 1


@pytest.mark.parametrize(
    ("kind", "header", "said"),
    [
        ("agent_info", '"Node_Id","Logical_Node_Id","Agent_Type"', "lists the processors"),
        ("kernel_stats", '"Name","Calls","TotalDurationNs"', "sums by name"),
    ],
)
def test_a_file_without_records_is_told_or_stands_for_those_beside_it(
    kind: str, header: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{PID}_{kind}.csv"
    path.write_text(f"{header}\n1,2,3\n")
    assert reader_of(path).name == "rocprof"
    with pytest.raises(NotATrace, match=said):
        tables(path)
    assert whole(path) == path
    records = written(tmp_path, "csv")
    assert whole(path) == records


@pytest.mark.parametrize(
    ("other", "fuller"),
    [
        (f"{PID}_results.json.gz", f"{PID}_results.db"),
        (f"{PID}_results.json", f"{PID}_results.db.gz"),
        (f"{PID}_results.db.gz", f"{PID}_results.db"),
        (f"{PID}_kernel_trace.csv.gz", f"{PID}_results.json.gz"),
        ("results.json", "results.db"),
    ],
)
def test_a_compressed_form_is_a_form_of_the_recording(
    other: str, fuller: str, tmp_path: Path
) -> None:
    form = "rocpd" if ".db" in fuller else "json"
    content = written(tmp_path / "made", form).read_bytes()
    (tmp_path / fuller).write_bytes(gzip.compress(content) if ".gz" in fuller else content)
    assert is_superseded(tmp_path / other)
    assert not is_superseded(tmp_path / fuller)
