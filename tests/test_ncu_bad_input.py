"""Damaged and strange profiles of Nsight Compute: one line that says what is wrong, or no loss."""

import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import called
from ncu_like import DURATION, READ, TENSOR, UNITS, WRITTEN, details, launch, raw

import traceql
from traceql.ncu.csv_file import csv_profile
from traceql.ncu.csv_text import csv_text
from traceql.ncu.profile import Profile
from traceql.ncu.read import read_profile

DATA = Path(__file__).parent / "data" / "ncu"
_TOOL = "==PROF== Connected to process 1 (/usr/bin/python3)\n"
_GOOD = raw(launch("a"), launch("b"))


def refused(folder: Path, content: bytes | str, name: str = "profile.csv") -> str:
    """The one line of a load that fails, and leaves nothing."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    done = called("load", path, "-o", folder / "out.duckdb", PATH="/nonexistent")
    err = done.stderr.decode()
    assert (done.returncode, done.stdout, err.count("\n")) == (1, b"", 1), err
    assert err[:-1].isprintable()
    assert name in err
    assert [file.name for file in folder.iterdir()] == [name]
    return err


def read(folder: Path, content: str) -> Profile:
    path = folder / "profile.csv"
    path.write_text(content)
    return read_profile(path)


def values(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in table.to_pylist()]


def check(profile: Profile, name: str) -> tuple[Any, ...]:
    (found,) = [one for one in profile.remarks if one.check_name == name]
    return found.value, found.total, found.ok


_HEADER, _UNITS_ROW, *_ = _GOOD.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (_HEADER, "an empty profile"),
        (_HEADER + _UNITS_ROW, "an empty profile"),
        (_TOOL + "==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        (_TOOL, "no CSV of Nsight Compute"),
        (_GOOD.replace('"b"', '"caf\u00e9"').encode("latin-1"), "is not UTF-8"),
        (_GOOD.encode("utf-16"), "it is UTF-16"),
        (_GOOD[:-9], "its last line is cut off"),
        (_HEADER[: _HEADER.index('"Kernel Name"') + 13], "an empty profile"),
        (_HEADER.split(',"dram')[0] + '\n"0"' + ',"1"' * 11 + "\n", "it has no metric"),
        (gzip.compress(_GOOD.encode())[:-20], "is damaged or incomplete"),
        (gzip.decompress((DATA / "summary.csv.gz").read_bytes()), "--print-summary"),
        (_GOOD + raw(launch("c", {"lts__t_bytes.sum": "1", "m": "2", "n": "3"})), "different col"),
        (_GOOD.replace('"', ""), "another program saved this CSV"),
        (_GOOD.replace('","', '";"'), "another program saved this CSV"),
        (_GOOD.replace('"ID",', "", 1), "it has no column ID"),
    ],
)
def test_what_cannot_be_used_is_told(content: bytes | str, said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path, content)


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", "device,dtype,tflops\nH200,bf16,989\n"])
def test_another_csv_is_no_profile(content: str, tmp_path: Path) -> None:
    refused(tmp_path, content)


def test_a_file_that_is_cut_anywhere_is_told_or_lacks_whole_launches(tmp_path: Path) -> None:
    for kept in range(len(_HEADER) - 20, len(_GOOD), 23):
        content = _GOOD[:kept]
        (tmp_path / "profile.csv").write_text(content)
        done = called("load", tmp_path / "profile.csv", "-o", tmp_path / "out.duckdb")
        if done.returncode:
            assert done.stderr.count(b"\n") == 1
            assert not (tmp_path / "out.duckdb").exists()
        else:
            assert content.endswith(('"', '"\n'))
            (tmp_path / "out.duckdb").unlink()


def test_output_of_the_program_is_around_the_rows(tmp_path: Path) -> None:
    lines = _GOOD.splitlines()
    noise = ['the program, says: "hello"', "==PROF== Disconnected from process 1", '"quoted", she']
    text = "\n".join([_TOOL + noise[0], *lines[:3], noise[2], lines[3], noise[1], ""])
    found = read(tmp_path, text)
    assert values(found.launches, "name") == [("a",), ("b",)]
    assert check(found, "other lines of the profile") == (0, 2, None)


def test_a_row_that_is_damaged_fails_the_ledger(tmp_path: Path) -> None:
    *lines, last = _GOOD.splitlines(keepends=True)
    found = read(tmp_path, "".join([*lines, lines[-1].rsplit(",", 1)[0] + "\n", last]))
    assert values(found.launches, "name") == [("a",), ("b",)]
    assert check(found, "damaged rows of the profile") == (0, 1, False)


def test_a_file_that_was_appended_to_has_the_launches_of_both() -> None:
    """Both pages number their launches from 0."""
    raw_page = csv_text((_GOOD + _GOOD).encode())
    assert csv_profile(raw_page).launches["name"].to_pylist() == ["a", "b", "a", "b"]
    page = details(("Section", "Duration", "ns", "7"), ("Section", "Cycles", "cycle", "9"))
    found = csv_profile(csv_text((page + page).encode()))
    assert found.launches.num_rows == 2
    assert values(found.metrics, "launch", "value") == [(0, 7), (0, 9), (1, 7), (1, 9)]


def test_a_raw_page_without_units_fails_the_ledger(tmp_path: Path) -> None:
    assert check(read(tmp_path, _GOOD.replace(_UNITS_ROW, "")), "units of the profile") == (
        0,
        1,
        False,
    )


@pytest.mark.slow
def test_a_number_that_can_be_read_in_two_ways_is_unknown_and_told(tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    path.write_text(raw(launch("a", {READ: "4,096", WRITTEN: "0", DURATION: "7"})))
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        metrics = trace.sql("FROM kernel_metric ORDER BY metric").arrow()
        assert values(metrics, "metric", "value", "text") == [
            (READ, None, "4,096"), (WRITTEN, 0.0, None), (DURATION, 7.0, None),
        ]  # fmt: skip
        assert trace.select("SELECT dur_ns, dram_bytes FROM profiled_work").rows() == [
            {"dur_ns": 7, "dram_bytes": None}
        ]
        (row,) = trace.run("quality.ledger", failed=True).rows()
    assert (row["check_name"], row["value"], row["total"]) == ("decimal mark of the profile", 1, 3)
    assert "4,096 can be read in two ways" in row["note"]


@pytest.mark.parametrize("more", ["0,33", "1.234.567"])
def test_another_number_tells_how_it_is_read(more: str, tmp_path: Path) -> None:
    found = read(tmp_path, raw(launch("a", {READ: "4.096", "m": more})))
    assert values(found.metrics, "metric", "value")[0] == (READ, 4096)
    (note,) = [one.note for one in found.remarks if one.check_name.startswith("decimal mark")]
    assert f"1 numbers such as {more} have a decimal comma" in note


def test_a_metric_that_is_missing_is_a_text(tmp_path: Path) -> None:
    found = read(tmp_path, raw(launch("a", {READ: "n/a", "launch__func_cache_config": "x"})))
    assert values(found.metrics, "value", "text") == [(None, "n/a"), (None, "x")]
    assert check(found, "values of the profile") == (2, 2, True)


@pytest.mark.parametrize("metric", [READ, TENSOR])
def test_a_text_in_place_of_a_number_is_unknown_and_told(metric: str, tmp_path: Path) -> None:
    """The first metric has a unit, the second one a number in another launch."""
    told = {"launch__func_cache_config": "x", "derived": "nan"}
    texts = ("abc", "7", "n/a")
    found = read(tmp_path, raw(*(launch("a", {metric: text, **told}) for text in texts)))
    of_metric = [row for row in found.metrics.to_pylist() if row["metric"] == metric]
    assert [(row["value"], row["text"]) for row in of_metric] == [
        (None, "abc"), (7, None), (None, "n/a"),
    ]  # fmt: skip
    assert check(found, "values of the profile that are no numbers") == (1, 9, False)
    (note,) = [one.note for one in found.remarks if one.check_name.endswith("no numbers")]
    assert f"abc of {metric}" in note


def test_time_series_are_counted_and_left_out(tmp_path: Path) -> None:
    one = launch("a", {READ: "1", "pmsampling:sm__cycles": "1;2;3", "warpsampling:x": "4"})
    found = read(tmp_path, raw(one))
    assert values(found.metrics, "metric") == [(READ,)]
    assert check(found, "values of the profile") == (1, 1, True)
    assert check(found, "time series of the profile") == (0, 2, None)


@pytest.mark.parametrize(
    ("cell", "odd", "column"),
    [
        ("Grid Size", "(1, 1)", "grid"),
        ("Grid Size", "(9999999999, 1, 1)", "grid"),
        ("Process ID", "x", "process_id"),
        ("Device", "-1", "device"),
    ],
)
def test_an_odd_fact_of_a_launch_costs_that_fact(
    cell: str, odd: str, column: str, tmp_path: Path
) -> None:
    found = read(tmp_path, raw(launch("a") | {cell: odd}))
    assert values(found.launches, "name", column) == [("a", None)]
    assert check(found, "values of the profile") == (3, 3, True)


def test_columns_of_old_versions(tmp_path: Path) -> None:
    """They had no sizes, and a time."""
    text = (
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context",'
        '"Stream","Section Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","7","a.out","h","f(int)","2024-Nov-01 10:00:00","1","7",'
        f'"Command line profiler metrics","{READ}","Kbyte","4.10"\n'
    )
    found = read(tmp_path, text)
    assert values(found.launches, "name", "grid", "block") == [("f(int)", None, None)]
    columns = ("section", "value", "unit", "file_unit", "step")
    section = "Command line profiler metrics"
    assert values(found.metrics, *columns) == [(section, 4100, "byte", "Kbyte", pytest.approx(10))]
    assert check(found, "rounded sizes of the profile") == (1, 1, None)


def test_units_of_the_file_are_kept(tmp_path: Path) -> None:
    units = UNITS | {READ: "Mbyte", DURATION: "us"}
    text = raw(launch("a", {READ: "0.000512", DURATION: "5.41"}), units=units)
    assert values(read(tmp_path, text).metrics, "metric", "value", "unit", "file_unit") == [
        (READ, 512, "byte", "Mbyte"),
        (DURATION, 5410, "ns", "us"),
    ]


# --- reports ---------------------------------------------------------------------------------


def test_without_the_module_a_report_is_told_how_to_print(tmp_path: Path) -> None:
    err = refused(tmp_path, b"NVR\x00...", "run.ncu-rep")
    assert "ncu -i run.ncu-rep --csv --page raw --print-units base > run.csv" in err


@pytest.mark.slow
def test_a_report_beside_other_files_is_skipped_without_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    (tmp_path / "run.ncu-rep").write_bytes(b"NVR")
    (tmp_path / "empty.json").write_text('{"traceEvents": []}')
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "printed.ncu-rep").write_bytes(b"NVR")
    (tmp_path / "printed.csv").write_text(_GOOD)
    found = traceql.load(tmp_path, tmp_path / "run.duckdb")
    assert [path.name for path in found.added] == ["empty.json", "printed.csv"]
    (other,) = found.others
    assert "run.ncu-rep: a report of Nsight Compute" in other


_MODULE = """
import csv


def load_report(path):
    with open(path, newline="") as file:
        units, *launches = csv.DictReader(file)
    if not launches:
        raise RuntimeError("no report")
    return Report([Action(units, launch) for launch in launches])


class Report:
    def __init__(self, actions):
        self._actions = actions

    def num_ranges(self):
        return 1

    def range_by_idx(self, _number):
        return self

    def num_actions(self):
        return len(self._actions)

    def action_by_idx(self, number):
        return self._actions[number]


class Action:
    NameBase_FUNCTION, NameBase_DEMANGLED = 0, 1
    WorkloadType_KERNEL, WorkloadType_RANGE, WorkloadType_GRAPH = 0, 1, 3

    def __init__(self, units, cells):
        self._units, self._cells = units, cells

    def name(self, base=NameBase_FUNCTION):
        name = self._cells["Kernel Name"]
        return name if base else name.split("<")[0]

    def workload_type(self):
        return self.WorkloadType_KERNEL

    def metric_names(self):
        return tuple(name for name, cell in self._cells.items() if "__" in name and cell)

    def __getitem__(self, name):
        return Metric(self._cells[name].replace(",", ""), self._units[name])

    def nvtx_state(self):
        return State(self._cells["NVTX"]) if self._cells["NVTX"] else None


class State:
    def __init__(self, ranges):
        self._ranges = ranges

    def domains(self):
        return (0,)

    def domain_by_id(self, _number):
        return self

    def push_pop_ranges(self):
        return tuple(self._ranges.split("|"))

    def start_end_ranges(self):
        return ()


class Metric:
    def __init__(self, text, unit):
        self._text, self._unit = text, unit

    def value(self):
        try:
            return float(self._text) if "." in self._text else int(self._text)
        except ValueError:
            return self._text

    def unit(self):
        return self._unit
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module with the functions of NVIDIA's, where an installed tool has it."""
    tool = tmp_path / "nsight-compute"
    for folder in ("extras/python", "target/linux"):
        (tool / folder).mkdir(parents=True)
    (tool / "extras" / "python" / "ncu_report.py").write_text(_MODULE)
    (tool / "target" / "linux" / "ncu").write_text("#!/bin/sh\n")
    (tool / "target" / "linux" / "ncu").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ncu").symlink_to(tool / "target" / "linux" / "ncu")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("ncu_report", None)


def report(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    path.write_text("\n".join('"' + '","'.join(row) + '"' for row in rows))
    return path


_SIZES = [f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz"]
_COLUMNS = ["Kernel Name", "NVTX", READ, "sm__cycles_elapsed.avg.per_second", "launch__tpc_enabled"]


@pytest.mark.usefixtures("module")
def test_a_report_is_read_with_the_module_of_the_tool(tmp_path: Path) -> None:
    path = report(
        tmp_path / "run.ncu-rep",
        [
            [*_COLUMNS, *_SIZES],
            ["", "", "byte", "hz", "", *["block"] * 6],
            ["f<2>(int)", "outer|inner", "4096", "1.5", "all", "2", "3", "1", "64", "1", "1"],
            ["g", "", "0", "2.5", "all", "1", "1", "1", "32", "1", "1"],
        ],
    )
    found = read_profile(path)
    assert found.page == "report"
    assert values(found.launches, "name", "kind", "grid", "block", "ranges") == [
        ("f<2>(int)", "kernel", [2, 3, 1], [64, 1, 1], ["outer", "inner"]),
        ("g", "kernel", [1, 1, 1], [32, 1, 1], []),
    ]
    assert values(found.metrics, "value", "unit", "text", "step")[:3] == [
        (4096, "byte", None, 0), (1.5, "hz", None, 0), (None, None, "all", None),
    ]  # fmt: skip
    assert check(found, "values of the profile") == (18, 18, True)


@pytest.mark.usefixtures("module")
def test_what_the_module_cannot_read_is_told(tmp_path: Path) -> None:
    path = report(tmp_path / "run.ncu-rep", [_COLUMNS, [""] * len(_COLUMNS)])
    done = called("load", path, "-o", tmp_path / "run.duckdb")
    assert done.returncode == 1
    said = "NVIDIA's module ncu_report cannot read it: RuntimeError: no report"
    assert done.stderr.decode() == f"traceql: {path}: {said}\n"
