"""The command that adds runs: what it prints for batch systems, and what it says of the rest."""

import subprocess
import sys
from pathlib import Path

import pytest
import traces
from click.testing import CliRunner, Result

import traceql
from traceql.cli import cli
from traceql.errors import TraceqlError
from traceql.runs.lake.add import source_at
from traceql.runs.lake.manifest import entries
from traceql.runs.lake.store import lock_key, store_at


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Three runs with one kernel each, whose paths a shell must not take apart."""
    names = ("a", "it's b", "$(touch c)")
    return [
        traces.write(tmp_path / f"{name}.json", traces.kernel(ts=0, dur=dur), note=name)
        for dur, name in enumerate(names, 5)
    ]


def add(*words: object) -> Result:
    return CliRunner().invoke(cli, ["lake", "add", *map(str, words)])


@pytest.mark.slow
def test_each_printed_command_adds_one_run_once(
    tmp_path: Path, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "the lake"
    monkeypatch.chdir(tmp_path)
    told = add(*runs, runs[0].name, "--lake", lake.name, "--executor", "print")
    assert not lake.exists()
    lines = told.stdout.splitlines()
    assert len(lines) == len(runs)
    monkeypatch.chdir("/")
    traceql_here = f'traceql() {{ "{sys.executable}" -m traceql "$@"; }}'
    for line in (*lines, lines[0]):
        shell = subprocess.run(["sh", "-c", f"{traceql_here}\n{line}"], timeout=120)
        assert shell.returncode == 0
    with traceql.open_lake(lake) as opened:
        rows = opened.sql("SELECT dur FROM kernel ORDER BY dur").rows()
    assert [row["dur"] for row in rows] == [5_000, 6_000, 7_000]
    assert not (tmp_path / "c").exists()


def test_printed_commands_have_the_options(tmp_path: Path, runs: list[Path]) -> None:
    told = add(runs[0], "--lake", "s3://b/l", "--executor", "print", "--again", "--timeout", 90)
    assert told.stdout == f"traceql lake add {runs[0]} --lake s3://b/l --again --timeout 90\n"


def test_nothing_is_printed_for_what_is_no_run_or_fits_no_line(tmp_path: Path) -> None:
    odd = tmp_path / "a\nb.json"
    odd.touch()
    for path, why in ((tmp_path / "none", "no such file or folder"), (odd, "has a line break")):
        told = add(path, "--lake", tmp_path / "lake", "--executor", "print")
        assert isinstance(told.exception, TraceqlError)
        assert why in str(told.exception)
        assert told.stdout == ""


def test_a_cluster_is_for_ray_alone(tmp_path: Path, runs: list[Path]) -> None:
    told = add(runs[0], "--lake", tmp_path / "lake", "--executor", "print", "--ray", "auto")
    assert told.exit_code == 2
    assert "--ray is for --executor ray, not print" in told.stderr


def test_without_ray_the_next_step_is_told(
    tmp_path: Path, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    told = add(runs[0], "--lake", tmp_path / "lake", "--executor", "ray")
    assert str(told.exception) == "ray is not installed; run pip install 'traceql[ray]'"
    assert not (tmp_path / "lake").exists()


@pytest.mark.slow
def test_a_run_that_another_command_loads_for_too_long_is_not_noted(
    tmp_path: Path, runs: list[Path]
) -> None:
    lake = tmp_path / "lake"
    with store_at(lake).locked(lock_key(source_at(runs[0]).digest)):
        told = add(runs[0], "--lake", lake, "--timeout", 1)
    assert told.exit_code == 1
    assert f"failed: {runs[0]}: it did not finish in 1 s; increase --timeout" in told.stderr
    assert entries(store_at(lake)) == []
