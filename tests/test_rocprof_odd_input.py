"""Damaged, changed and odd outputs of rocprofv3: one line that says what is wrong, or no loss."""

import gzip
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rocpd_like import FORMS, PID, Recorded, call, copy, kernel, marker, suffix, write, write_csv

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.registry import is_superseded, reader_of, whole

_ROWS = [
    marker("execute_context_0(0)_generation_1(1)", ts=1000, dur=90, correlation=1),
    call(ts=1010, dur=5, correlation=2),
    kernel("Cijk_gemm", ts=1020, dur=30, correlation=2),
    copy("DtoH", ts=1060, dur=5, correlation=3, bytes=64),
]
_ENDING = suffix(PID)
Tables = dict[str, list[dict[str, Any]]]


def written(folder: Path, form: str, *odd: Any) -> Path:
    return write(folder, form, Recorded(PID, [*_ROWS, *odd]))


def rocpd(folder: Path, *statements: str, odd: Any = ()) -> Path:
    """A database after these statements."""
    path = written(folder, "rocpd", *odd)
    with closing(sqlite3.connect(path)) as con, con:
        for one in statements:
            con.execute(one)
    return path


def tool_json(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A file after a change of the lists of records of its process."""
    path = written(folder, "json")
    document = json.loads(path.read_text())
    change(document["rocprofiler-sdk-tool"][0]["buffer_records"])
    path.write_text(json.dumps(document))
    return path


def counters(folder: Path, *lines: str) -> Path:
    """A file of counters, and no other."""
    path = folder / f"{PID}_counter_collection.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def tables(path: Path) -> Tables:
    """What the reader makes of a file, of all ranks together."""
    found: Tables = {}
    for part in reader_of(path).read(path, trace_processor=None):  # type: ignore[union-attr]
        for name, table in part.tables.items():
            found.setdefault(name, []).extend(table.to_pylist())
    return found


def failed(found: Tables) -> list[tuple[str, int, int]]:
    checks = [row for row in found["load_check"] if row["ok"] is False]
    return sorted((row["check_name"], row["value"], row["total"]) for row in checks)


def refused(path: Path) -> str:
    """The one line of an error, which names the file once."""
    with pytest.raises(TraceCorrupt) as raised:
        tables(path)
    said = str(raised.value)
    assert said.isprintable()
    assert said.count(path.name) == 1
    return said


_KERNELS = f"rocpd_kernel_dispatch{_ENDING}"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f'DROP TABLE "rocpd_string{_ENDING}"', f"table rocpd_string{_ENDING} is missing"),
        (f'DELETE FROM "rocpd_info_process{_ENDING}"', "names no process"),
        (f'ALTER TABLE "{_KERNELS}" DROP COLUMN "start"', "has other columns than schema 3"),
        (f'UPDATE "{_KERNELS}" SET start = -5', "kernel_dispatch, row 1: an event begins at -5 ns"),
        (
            f"UPDATE \"{_KERNELS}\" SET start = 'soon'",
            f"table {_KERNELS}, row 1: column start has the value 'soon', expected an integer",
        ),
    ],
)
def test_what_is_wrong_in_a_database_is_named(statement: str, said: str, tmp_path: Path) -> None:
    views = [f'DROP VIEW "{name}"' for name in ("rocpd_string", "rocpd_kernel_dispatch")]
    assert said in refused(rocpd(tmp_path, *views, statement))


def test_the_older_format_of_this_name_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE rocpd_op (id INTEGER)")
    assert "rocmProfileData" in refused(path)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["kernel_dispatch", "event"])
def test_a_table_that_is_absent_counts_as_empty(table: str, tmp_path: Path) -> None:
    path = rocpd(tmp_path, f'DROP VIEW "rocpd_{table}"', f'DROP TABLE "rocpd_{table}{_ENDING}"')
    assert len(tables(path)["slice"]) == len(_ROWS) - (table == "kernel_dispatch")


@pytest.mark.parametrize("form", FORMS)
def test_a_profile_without_events_is_no_trace(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form) if form == "csv" else write(tmp_path, form, Recorded(PID, []))
    for other in path.parent.glob("*.csv"):
        other.write_text(other.read_text().splitlines(keepends=True)[0])
    assert "holds no events" in refused(path)


def test_json_that_was_cut_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "json")
    path.write_bytes(path.read_bytes()[:-5])
    assert "damaged JSON of rocprofv3" in refused(path)


def test_a_record_that_cannot_be_read_costs_itself_alone(tmp_path: Path) -> None:
    def change(lists: dict[str, Any]) -> None:
        records = lists["kernel_dispatch"]
        for start, end in (("soon", 5), (2**63, 2**63 + 1), (0, 0)):
            records.append(records[0] | {"start_timestamp": start, "end_timestamp": end})

    found = tables(tool_json(tmp_path, change))
    assert len(found["slice"]) == len(_ROWS)
    assert failed(found) == [
        ("records that cannot be read", 2, 2),
        ("records without times", 1, len(_ROWS) + 1),
    ]


_CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "text before the header": (lambda text: "model loaded\n" * 3 + text, "its header is in line 4"),
    "semicolons": (lambda text: text.replace(",", ";"), "not separated by commas"),
    "thousands": (lambda text: text.replace(",1020,", ',"1,020",'), "row 1: column start_timesta"),
    "rounded": (lambda text: text.replace(",1020,", ',"1.02E+03",'), "has the value '1.02E+03'"),
    "cut": (lambda text: text[:-3], "ends within a line"),
    "empty": (lambda _: "", "empty file"),
    "no header": (lambda text: text.split("\n", 1)[1], "expected a header of rocprofv3"),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_csv_that_another_program_changed_is_refused(change: str, tmp_path: Path) -> None:
    path = written(tmp_path, "csv")
    changed, said = _CHANGES[change]
    path.write_text(changed(path.read_text()))
    assert said in refused(path)


def test_rows_of_csv_that_do_not_fit_its_header_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "csv").with_name(f"{PID}_hip_api_trace.csv")
    path.write_text(path.read_text() + 'HIP,short\n"HIP","two\nlines",1,1,9,1010,1015\nHIP,"open\n')
    found = tables(path)
    assert [row["name"] for row in found["slice"] if row["cat"] == "HIP"] == ["two\nlines"]
    assert failed(found) == [("records that cannot be read", 2, 2)]


@pytest.mark.parametrize("form", FORMS)
def test_an_event_that_ends_before_it_begins_is_counted_and_not_loaded(
    form: str, tmp_path: Path
) -> None:
    odd = [call(ts=2000, dur=-5), kernel(ts=2000, dur=-30), copy(ts=2000, dur=-1)]
    found = tables(written(tmp_path, form, *odd))
    assert failed(found) == [("records that end before they begin", 3, 7)]
    events = Counter((row["cat"], row["dur"]) for row in found["slice"])
    counted = {(row["cat"], row["dur"]): row["events"] for row in found["count"]}
    assert events == counted
    assert sum(events.values()) == len(_ROWS)


@pytest.mark.parametrize("form", FORMS)
def test_sizes_that_cannot_be_are_null_and_counted(form: str, tmp_path: Path) -> None:
    odd = [
        kernel(ts=2000, dur=5, grid=(0, 1, 1)),
        kernel(ts=2010, dur=5, grid=(2, 1, 1), block=(0, 1, 1)),
        copy("DtoH", ts=2030, dur=5, bytes=-8),
    ]
    found = tables(written(tmp_path, form, *odd))
    sizes = [(row["grid"], row["block"], row["bytes"]) for row in found["activity"]]
    small = None if form == "csv" else 64  # its copies have no size
    assert sizes == [
        ([1, 1, 1], [64, 1, 1], None),
        (None, None, small),
        (None, [64, 1, 1], None),
        *[(None, None, None)] * 2,
    ]
    assert failed(found) == [
        *([] if form == "csv" else [("copies of fewer than 0 bytes", 1, 2)]),
        ("kernels with an impossible grid or block", 2, 3),
    ]


@pytest.mark.parametrize(("described", "unknown"), [("id <> 2", 1), ("FALSE", 2)])
def test_kernels_of_agents_that_no_table_describes_are_counted(
    described: str, unknown: int, tmp_path: Path
) -> None:
    """Kernels of the first GPU, whose agent has the number 2, and of the second one."""
    statement = f'DELETE FROM "rocpd_info_agent{_ENDING}" WHERE NOT ({described})'
    path = rocpd(tmp_path, statement, odd=[kernel(ts=2000, dur=5, device=1)])
    assert failed(tables(path)) == [("kernels of unknown agents", unknown, 2)]


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
        (_COUNTERS, "1,1,Agent 2,gemm,WAVES,7", "no times"),
        (f"{_COUNTERS},{_TIMES},kernel_name", "1,1,a,gemm,W,7,10,20,a", "'kernel_name' twice"),
    ],
)
def test_counters_that_cannot_be_read_are_refused(
    header: str, row: str, said: str, tmp_path: Path
) -> None:
    assert said in refused(counters(tmp_path, header, row))


@pytest.mark.parametrize(
    ("kind", "header", "said"),
    [
        ("agent_info", '"Node_Id","Logical_Node_Id","Agent_Type"', "lists the processors"),
        ("kernel_stats", '"Name","Calls","TotalDurationNs"', "sums by name"),
    ],
)
def test_a_file_without_records_is_no_trace_or_stands_for_those_beside_it(
    kind: str, header: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{PID}_{kind}.csv"
    path.write_text(f"{header}\n1,2,3\n")
    with pytest.raises(NotATrace, match=said):
        tables(path)
    assert whole(path) == path
    records = write_csv(tmp_path, Recorded(PID, _ROWS))
    assert whole(path) == records


@pytest.mark.parametrize(
    ("other", "fuller"),
    [
        (f"{PID}_results.json", f"{PID}_results.db.gz"),
        (f"{PID}_results.db.gz", f"{PID}_results.db"),
        (f"{PID}_kernel_trace.csv.gz", f"{PID}_results.json.gz"),
    ],
)
def test_a_compressed_form_is_a_form_of_the_recording(
    other: str, fuller: str, tmp_path: Path
) -> None:
    content = written(tmp_path / "made", "rocpd" if ".db" in fuller else "json").read_bytes()
    (tmp_path / fuller).write_bytes(gzip.compress(content) if ".gz" in fuller else content)
    assert is_superseded(tmp_path / other)
    assert not is_superseded(tmp_path / fuller)
