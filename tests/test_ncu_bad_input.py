"""Damaged and strange profiles of Nsight Compute: one line that says what is wrong, or no loss."""

import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import called
from ncu_like import DURATION, READ, WRITTEN, launch, raw

import traceql
from traceql.readers.ncu.read import read_profile
from traceql.readers.ncu.values import Profile

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
        (_HEADER + _UNITS_ROW, "an empty profile"),
        (_TOOL + "==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        (_TOOL, "no CSV of Nsight Compute"),
        (_GOOD.replace('"b"', '"caf\u00e9"').encode("latin-1"), "is not UTF-8"),
        (_GOOD.encode("utf-16"), "it is UTF-16"),
        (_GOOD[:-9], "its last line is cut off"),
        (_HEADER.split(',"dram')[0] + '\n"0"' + ',"1"' * 11 + "\n", "it has no metric"),
        (gzip.compress(_GOOD.encode())[:-20], "is damaged or incomplete"),
        (gzip.decompress((DATA / "summary.csv.gz").read_bytes()), "--print-summary"),
        (_GOOD + raw(launch("c", {"lts__t_bytes.sum": "1", "m": "2", "n": "3"})), "different col"),
        (_GOOD.replace('"', ""), "another program saved this CSV"),
        (_GOOD.replace('"ID",', "", 1), "it has no column ID"),
    ],
)
def test_what_cannot_be_used_is_refused(content: bytes | str, said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path, content)


def test_a_row_that_is_damaged_fails_the_ledger(tmp_path: Path) -> None:
    *lines, last = _GOOD.splitlines(keepends=True)
    found = read(tmp_path, "".join([*lines, lines[-1].rsplit(",", 1)[0] + "\n", last]))
    assert values(found.launches, "name") == [("a",), ("b",)]
    assert check(found, "damaged rows of the profile") == (0, 1, False)


@pytest.mark.slow
def test_a_number_that_can_be_read_in_two_ways_is_unknown_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    path.write_text(raw(launch("a", {READ: "4,096", WRITTEN: "0", DURATION: "7"})))
    traceql.load(path, tmp_path / "run.duckdb")
    with traceql.open(tmp_path / "run.duckdb") as trace:
        metrics = trace.sql("FROM kernel_metric ORDER BY metric").arrow()
        assert values(metrics, "metric", "value", "text") == [
            (READ, None, "4,096"), (WRITTEN, 0.0, None), (DURATION, 7.0, None),
        ]  # fmt: skip
        assert trace.select("SELECT dur, dram_bytes FROM profiled_work").rows() == [
            {"dur": 7, "dram_bytes": None}
        ]
        (row,) = trace.query("quality.ledger", failed=True).rows()
    assert (row["check_name"], row["value"], row["total"]) == ("decimal mark of the profile", 1, 3)
    assert "4,096 can be read in two ways" in row["note"]


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


# --- reports ---------------------------------------------------------------------------------


def test_without_the_module_a_report_is_refused_with_a_command_for_csv(
    tmp_path: Path,
) -> None:
    err = refused(tmp_path, b"NVR\x00...", "run.ncu-rep")
    assert "ncu -i run.ncu-rep --csv --page raw --print-units base > run.csv" in err


_MODULE = """
import csv
from types import SimpleNamespace


def load_report(path):
    with open(path, newline="") as file:
        units, *launches = csv.DictReader(file)
    if not launches:
        raise RuntimeError("no report")
    actions = [Action(units, launch) for launch in launches]
    found = SimpleNamespace(num_actions=lambda: len(actions), action_by_idx=actions.__getitem__)
    return SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda _: found)


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
        text = self._cells[name].replace(",", "")
        value = text if text.isalpha() else float(text) if "." in text else int(text)
        return SimpleNamespace(value=lambda: value, unit=lambda: self._units[name])

    def nvtx_state(self):
        if not self._cells["NVTX"]:
            return None
        ranges = tuple(self._cells["NVTX"].split("|"))
        domain = SimpleNamespace(push_pop_ranges=lambda: ranges, start_end_ranges=lambda: ())
        return SimpleNamespace(domains=lambda: (0,), domain_by_id=lambda _: domain)
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
def test_what_the_module_cannot_read_is_refused(tmp_path: Path) -> None:
    path = report(tmp_path / "run.ncu-rep", [_COLUMNS, [""] * len(_COLUMNS)])
    done = called("load", path, "-o", tmp_path / "run.duckdb")
    assert done.returncode == 1
    said = "NVIDIA's module ncu_report cannot read it: RuntimeError: no report"
    assert done.stderr.decode() == f"traceql: {path}: {said}\n"
