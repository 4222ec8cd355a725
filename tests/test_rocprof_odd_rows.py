"""Odd rows, columns and files of rocprofv3: what becomes of them, and what a message says."""

import gzip
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rocpd_like import PID, Recorded, call, copy, kernel, marker, suffix, write_csv, write_json
from rocpd_like import write_rocpd as write_database

import traceql
from traceql.errors import NotATrace, RankConflict, TraceCorrupt
from traceql.reader.registry import is_superseded, reader_of, whole
from traceql.reader.rocprof import rank_events
from traceql.reader.rocprof.read import read_recording
from traceql.reader.rocprof.recording import Process
from traceql.reader.rocprof.rocpd import read_rocpd

_ROWS = [
    call(ts=1010, dur=5, correlation=2),
    kernel(ts=1020, dur=30, correlation=2),
    copy("DtoH", ts=1060, dur=5, correlation=3, bytes=64),
]
_ENDING = suffix(PID)
_FAILED = "SELECT check_name, value, total FROM ledger WHERE ok IS FALSE ORDER BY ALL"


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
    rows = [(r["check_name"], r["value"], r["total"]) for r in found["remark"] if r["ok"] is False]
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


@pytest.mark.slow
def test_the_ledger_of_a_database_with_such_an_event_misses_nothing_else(tmp_path: Path) -> None:
    traceql.load(written(tmp_path / "in", "rocpd", *_ROWS, *_ODD[:1]), tmp_path / "run.duckdb")
    with traceql.Trace(tmp_path / "run.duckdb") as trace:
        rows = [tuple(row.values()) for row in trace.sql(_FAILED).rows()]
    assert rows == [("records that end before they begin", 1, 4)]


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
    remarks = [row for rank in read_recording(path) for row in rank.tables["remark"].to_pylist()]
    assert failed({"remark": remarks}) == found


def test_kernels_of_an_agent_that_is_not_in_the_list_of_a_csv_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, "csv")
    agents = path.with_name(f"{PID}_agent_info.csv")
    header, *lines = agents.read_text().splitlines(keepends=True)
    agents.write_text(header + "".join(line for line in lines if "GPU" not in line))
    assert failed(tables(path)) == [("kernels of unknown agents", 1, 1)]


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


def test_counters_of_no_agent_are_of_no_gpu(tmp_path: Path) -> None:
    header = f"{_COUNTERS},{_TIMES}".replace("Agent_Id,", "")
    found = tables(counters(tmp_path, header, "1,1,gemm,WAVES,7.5,10,20"))
    assert [row["value"] for row in found["counter"]] == [7.5]


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


@pytest.mark.parametrize("column", ["Start_Timestamp", "End_Timestamp"])
def test_csv_without_a_column_of_times_is_told(column: str, tmp_path: Path) -> None:
    path = written(tmp_path, "csv")
    path.write_text(path.read_text().replace(column, "Time"))
    with pytest.raises(TraceCorrupt, match=f"has no column {column.lower()}"):
        tables(path)


def test_a_number_of_twenty_digits_costs_its_row_alone(tmp_path: Path) -> None:
    path = written(
        tmp_path, "csv", *_ROWS, kernel(ts=1100, dur=5), call(ts=1, dur=1, tid=2**64 - 1)
    )
    path.write_text(path.read_text().replace(",1100,", f",{10**19},"))
    found = tables(path)
    assert failed(found) == [("records that cannot be read", 1, 1)]
    assert len(found["slice"]) == 4


def test_a_thread_of_json_that_exceeds_64_bits_is_unknown(tmp_path: Path) -> None:
    found = tables(written(tmp_path, "json", *_ROWS, call(ts=1, dur=1, tid=2**64 - 1)))
    assert counted_matches(found)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_another_encoding_is_told(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form)
    path.write_text(path.read_text(), encoding="utf-16")
    assert reader_of(path).name == "rocprof"
    with pytest.raises(TraceCorrupt, match="UTF-16"):
        tables(path)


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


@pytest.mark.parametrize(("name", "is_told"), [("hipGraphLaunch", True), ("hipFree", False)])
def test_advice_about_graphs_is_for_recordings_of_graphs(
    name: str, is_told: bool, tmp_path: Path
) -> None:
    rows = [kernel(ts=1020 + n, dur=1, correlation=2, dispatch=n) for n in (1, 3)]
    found = tables(written(tmp_path, "rocpd", call(name, ts=1000, dur=5, correlation=2), *rows))
    (note,) = [r["note"] for r in found["remark"] if r["check_name"] == "dispatches missing"]
    assert ("--enforce-eager" in note) == is_told


def test_threads_of_a_database_have_the_ids_of_the_system(tmp_path: Path) -> None:
    thread = f'INSERT INTO "rocpd_info_thread{_ENDING}" (id, pid, tid) VALUES ({PID}, {PID}, 4242)'
    events = rocpd(tmp_path, thread).events
    assert set(events["thread"].to_pylist()) == {4242}


def test_a_message_that_is_a_number_is_a_name(tmp_path: Path) -> None:
    path = written(tmp_path, "rocpd", *_ROWS, marker("text", ts=1, dur=5))
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(
            f'UPDATE "rocpd_event{_ENDING}" SET extdata = \'{{"message": 5}}\' '
            "WHERE extdata LIKE '%text%'"
        )
    assert "5" in read_rocpd(path).processes[0].events["name"].to_pylist()


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


@pytest.mark.slow
@pytest.mark.parametrize("is_later", [False, True])
def test_renamed_forms_of_one_recording_are_refused(is_later: bool, tmp_path: Path) -> None:
    files = [written(tmp_path / "in", form, name="mine") for form in ("rocpd", "json")]
    if is_later:
        traceql.load(files[0], tmp_path / "run.duckdb")
    with pytest.raises(RankConflict, match=rf"process {PID} on GPU 0 .*mine.db .*mine.json"):
        traceql.load(files[is_later:], tmp_path / "run.duckdb")


def test_counters_of_json_without_times_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, "json")
    document = json.loads(path.read_text())
    (process,) = document["rocprofiler-sdk-tool"]
    (dispatch,) = process["buffer_records"]["kernel_dispatch"]
    process["buffer_records"] = {}
    timeless = dispatch | {"start_timestamp": 0, "end_timestamp": 0}
    value = {"counter_id": {"handle": 4}, "value": 2.5}
    process["callback_records"] = {
        "counter_collection": [{"dispatch_data": timeless, "records": [value]}]
    }
    path.write_text(json.dumps(document))
    with pytest.raises(NotATrace, match="no times"):
        tables(path)


def test_parts_of_a_large_recording_give_the_tables_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parents may be in an earlier part, and events that begin together are nested in one."""
    rows = [marker("outer", ts=100, dur=900), marker("inner", ts=200, dur=500)]
    for n in range(6):
        rows += [call(ts=100 + 100 * n, dur=90, correlation=n), kernel(ts=110 + 100 * n, dur=9)]
    path = written(tmp_path, "rocpd", *rows)
    whole = tables(path)
    named = {row["index"]: row["name"] for row in whole["slice"]}
    inside = [
        (row["ts"], named[row["parent"]], row["depth"])
        for row in whole["slice"]
        if row["name"] in ("hipLaunchKernel", "inner")
    ]
    assert inside == [
        (100, "outer", 1),
        (200, "outer", 1),
        *((200 + 100 * n, "inner", 2) for n in range(5)),
    ]
    monkeypatch.setattr(rank_events, "ROWS", 4)
    parts = list(read_recording(path))
    assert [part.continues for part in parts] == [True, True, True, False]
    for name, table in whole.items():
        found = [row for part in parts for row in part.tables[name].to_pylist()]
        assert found == table, name
