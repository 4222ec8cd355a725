"""A lake of runs: the same answers as their own databases, whatever happens to its files."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import databases
import duckdb
import pytest
import traces
from click.testing import CliRunner, Result

import traceql
from traceql.cli import cli
from traceql.errors import LakeError, QueryInvalid, RunNotFound, TraceqlError
from traceql.runs.lake.add import add_run, source_at
from traceql.runs.lake.maintenance import check_lake, compact, remove_runs
from traceql.runs.lake.manifest import Entry, entries, write_entry
from traceql.runs.lake.store import lock_key, store_at
from traceql.sql.query import shipped_queries

ONE_RANK, BATCH16 = "qwen3-8b-tp1-graph", databases.BATCH16
pytestmark = pytest.mark.slow  # each adds runs

KERNELS = "SELECT run, COUNT(*) AS kernels, SUM(dur) AS ns FROM kernel GROUP BY run ORDER BY run"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two bundled runs."""
    lake = tmp_path_factory.mktemp("lake") / "lake"
    for name in (ONE_RANK, BATCH16):
        assert add_run(databases.trace(name).path, lake).entry.error is None
    return lake


@pytest.fixture(scope="module")
def compacted(filled: Path) -> Path:
    """The same lake, its files merged."""
    lake = filled.with_name("compacted")
    shutil.copytree(filled, lake)
    assert compact(str(lake)).after < 100
    return lake


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A database with two kernels, of 5 and 7 us."""
    return loaded(tmp_path, "small", 5, 7)


def loaded(folder: Path, name: str, *durations: float) -> Path:
    return traceql.load(trace_of(folder, name, *durations), folder / f"{name}.duckdb").database


def trace_of(folder: Path, name: str, *durations: float) -> Path:
    kernels = [traces.kernel(ts=10 * n, dur=dur) for n, dur in enumerate(durations)]
    return traces.write(folder / f"{name}.json", *kernels, note=name)


def entry_of(lake: Path, beginning: str = "") -> Entry:
    (found,) = [one for one in entries(store_at(lake)) if one.run.startswith(beginning)]
    return found


def kernels(lake: Path) -> list[dict[str, object]]:
    with traceql.open_lake(lake) as opened:
        return opened.sql(KERNELS).rows()


def command(*words: object, lake: Path | str) -> Result:
    return CliRunner().invoke(cli, ["lake", *map(str, words), "--lake", str(lake)])


@pytest.mark.parametrize("name", [ONE_RANK, BATCH16])
@pytest.mark.parametrize("kept", ["filled", "compacted"])
def test_a_lake_answers_as_the_database_of_the_run(
    name: str, kept: str, request: pytest.FixtureRequest
) -> None:
    own = databases.trace(name)
    with traceql.open_lake(request.getfixturevalue(kept)) as lake:
        for query in shipped_queries():
            rows = lake.run(query, where=f"run LIKE '{own.path.stem}%'").arrow()
            assert rows.column_names[0] == "run"
            assert rows.drop_columns(["run"]).equals(own.run(query).arrow()), query


def test_sql_sees_all_runs(filled: Path) -> None:
    own = [databases.trace(name) for name in (BATCH16, ONE_RANK)]
    counted = "SELECT COUNT(*), SUM(dur) FROM kernel"
    expected = {one.path.stem: list(one.sql(counted).rows()[0].values()) for one in own}
    found = {str(row["run"]).rsplit("-", 1)[0]: list(row.values())[1:] for row in kernels(filled)}
    assert found == expected


def test_runs_are_chosen_by_what_they_are_and_statements_reach_nothing_else(filled: Path) -> None:
    with traceql.open_lake(filled) as lake:
        chosen = lake.run("time.breakdown", where="ranks = 2 AND list_contains(hosts, 'vm')")
        assert [row["rank"] for row in chosen] == [0, 1]
        with pytest.raises(RunNotFound, match="no run has ranks = 9"):
            lake.run("time.breakdown", where="ranks = 9")
        for wrong in ("no_such_column = 1", "model =", "1 = 1); DROP TABLE lake_run; SELECT (1"):
            with pytest.raises(QueryInvalid, match="--where"):
                lake.run("time.breakdown", where=wrong)
        with pytest.raises(QueryInvalid, match="no table 'kernels'; did you mean 'kernel'"):
            lake.sql("FROM kernels")
        for beyond in ("SELECT * FROM read_text('/etc/passwd')", "ATTACH 'x.duckdb'"):
            with pytest.raises(TraceqlError):
                lake.sql(beyond)


def test_the_same_recording_is_added_once(tmp_path: Path) -> None:
    trace, lake = trace_of(tmp_path, "a", 5), tmp_path / "lake"
    assert add_run(trace, lake).is_new
    assert not add_run(trace, lake).is_new
    assert not add_run(loaded(tmp_path, "a", 5), lake).is_new  # the database of that trace
    assert len(entries(store_at(lake))) == 1
    told = command("add", trace, lake=lake)
    assert told.exit_code == 0
    assert "skipped: " in told.stderr


def test_a_failed_load_is_a_row_and_the_others_are_added(tmp_path: Path) -> None:
    good, lake = trace_of(tmp_path, "good", 5), tmp_path / "lake"
    bad = tmp_path / "bad.json"
    bad.write_bytes(good.read_bytes()[:-20])
    told = command("add", "--jobs", 1, bad, good, lake=lake)
    assert told.exit_code == 1
    assert told.stderr.count(f"failed: {bad}: ") == 1
    assert told.stderr.count(str(bad)) == 1
    failed = entry_of(lake, "bad")
    assert (failed.status, failed.tables) == ("failed", {})
    assert failed.error
    assert str(bad) in failed.error
    assert [row["kernels"] for row in kernels(lake)] == [1]
    with traceql.open_lake(lake) as opened:
        assert opened.run("fleet.runs", status="failed").rows()[0]["error"] == failed.error
    checked = check_lake(str(lake))
    assert checked.ok
    assert [(one.kind, one.name) for one in checked.problems] == [("failed", failed.run)]
    bad.write_bytes(good.read_bytes().replace(b"good", b"bad"))
    assert add_run(bad, lake).entry.status == "ok"
    assert [one.status for one in entries(store_at(lake))] == ["ok", "ok"]


def test_two_writers_add_each_run_once(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    sources = [loaded(tmp_path, name, 5, dur) for name, dur in (("a", 1), ("b", 2), ("c", 3))]
    orders = [sources, sources[::-1]]
    words = [sys.executable, "-m", "traceql", "lake", "add", "--jobs", "1", "--lake", str(lake)]
    writers = [subprocess.Popen([*words, *map(str, order)]) for order in orders]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    assert [row["ns"] for row in kernels(lake)] == [6_000, 7_000, 8_000]
    assert check_lake(str(lake)).problems == ()


_KILLED = """
import os, signal, sys
from traceql.runs.lake.store import Store
moves, put = iter(range(1_000)), Store.put
def put_or_die(store, draft, name):
    if next(moves) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    put(store, draft, name)
Store.put = put_or_die
from traceql.runs.lake.add import add_run
from traceql.runs.lake.maintenance import compact
if sys.argv[2] == "add":
    add_run(sys.argv[3], sys.argv[4])
else:
    compact(sys.argv[4])
"""


def killed_at(put: int, what: str, source: Path, lake: Path) -> bool:
    """Runs a command that kills itself when it puts that file; whether it came so far."""
    words = [sys.executable, "-c", _KILLED, str(put), what, str(source), str(lake)]
    return subprocess.run(words, timeout=120).returncode == -signal.SIGKILL


@pytest.mark.parametrize("put", [0, 20, pytest.param(-1, id="row")])
def test_a_killed_add_leaves_a_whole_lake(tmp_path: Path, small: Path, put: int) -> None:
    lake = tmp_path / "lake"
    other = add_run(loaded(tmp_path, "other", 3), lake).entry
    files = len(add_run(small, tmp_path / "whole").entry.tables)
    assert killed_at(files if put < 0 else put, "add", small, lake)
    assert [one.run for one in entries(store_at(lake))] == [other.run]
    assert kernels(lake) == [{"run": other.run, "kernels": 1, "ns": 3_000}]
    assert {one.kind for one in check_lake(str(lake)).problems} <= {"orphan"}
    assert add_run(small, lake).is_new
    assert [row["ns"] for row in kernels(lake)] == [3_000, 12_000]
    assert check_lake(str(lake)).problems == ()


@pytest.mark.parametrize("put", [10, pytest.param(-1, id="second row")])
def test_a_killed_compaction_leaves_a_whole_lake(tmp_path: Path, small: Path, put: int) -> None:
    lake = tmp_path / "lake"
    for source in (small, loaded(tmp_path, "other", 3)):
        add_run(source, lake)
    before = kernels(lake)
    tables = {name for one in entries(store_at(lake)) for name in one.tables}
    shared = [name for name in tables if all(name in one.tables for one in entries(store_at(lake)))]
    assert killed_at(put if put >= 0 else len(shared) + 2 + put, "compact", small, lake)
    assert kernels(lake) == before
    assert {one.kind for one in check_lake(str(lake)).problems} <= {"orphan"}
    done = compact(str(lake))
    assert done.after == len(shared) + sum(
        len(one.tables.keys() - set(shared)) for one in entries(store_at(lake))
    )
    assert kernels(lake) == before
    assert check_lake(str(lake)).problems == ()


def test_a_damaged_file_is_found_reported_and_mended(tmp_path: Path, small: Path) -> None:
    lake = tmp_path / "lake"
    entry = add_run(small, lake).entry
    file = lake / entry.tables["kernel"].file
    content = file.read_bytes()
    file.write_bytes(content[:-30] + bytes(30))  # where Parquet has its description
    with traceql.open_lake(lake) as opened, pytest.raises(LakeError, match="traceql lake check"):
        opened.run("kernels.top")
    told = command("check", lake=lake)
    assert told.exit_code == 1
    assert f"{entry.tables['kernel'].file} has changed" in told.stdout.replace("\n  ", " ")
    assert "--again" in told.stdout
    file.unlink()
    assert [one.kind for one in check_lake(str(lake), content=False).problems] == ["missing"]
    assert command("add", "--again", small, lake=lake).exit_code == 0
    assert check_lake(str(lake)).problems == ()
    assert file.read_bytes() == content


def test_files_that_no_run_names_are_found_and_removed(tmp_path: Path, small: Path) -> None:
    lake = tmp_path / "lake"
    entry = add_run(small, lake).entry
    stray = lake / "table=kernel" / "run=gone-12345678" / "x.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"x")
    told = command("check", lake=lake)
    assert told.exit_code == 1
    assert "belongs to no run" in told.stdout
    assert command("compact", lake=lake).exit_code == 0
    assert not stray.parent.exists()
    assert check_lake(str(lake)).problems == ()
    assert kernels(lake) == [{"run": entry.run, "kernels": 2, "ns": 12_000}]


def test_a_run_of_an_older_version_has_null_where_it_has_no_column(
    tmp_path: Path, small: Path
) -> None:
    lake = tmp_path / "lake"
    new = add_run(loaded(tmp_path, "new", 3), lake).entry
    old = add_run(small, lake).entry
    make_older(lake, old, "kernel", "category")
    with traceql.open_lake(lake) as opened:
        rows = opened.sql(
            "SELECT run, category, COUNT(*) AS n FROM kernel GROUP BY ALL ORDER BY ALL"
        )
        assert rows.rows() == [
            {"run": new.run, "category": "gemm", "n": 1},
            {"run": old.run, "category": None, "n": 2},
        ]
        both = opened.run("time.breakdown").rows()
        assert {row["run"] for row in both} == {new.run, old.run}
        assert all(row["computing_ns"] for row in both)
    assert compact(str(lake)).after >= len(old.tables)  # which are left alone
    with traceql.open_lake(lake) as opened:
        rows = opened.sql(f"SELECT category FROM kernel WHERE run = '{old.run}'")
        assert rows.rows() == [{"category": None}] * 2


def make_older(lake: Path, entry: Entry, table: str, column: str) -> None:
    """Turns a run into one whose table had no such column, nor the lake a newer table."""
    store, stored = store_at(lake), entry.tables[table]
    file = lake / stored.file
    old = file.with_name("old.parquet")
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT * EXCLUDE ({column}) FROM '{file}') TO '{old}'")
    file.unlink()
    name = old.relative_to(lake).as_posix()
    kept = replace(stored, file=name, size_bytes=old.stat().st_size, sha256=store.sha256(name))
    tables = {**entry.tables, table: kept}
    write_entry(store, replace(entry, layout="older", schema_version=1, tables=tables))


def test_a_removed_run_is_gone(tmp_path: Path, small: Path) -> None:
    lake = tmp_path / "lake"
    gone, kept = (add_run(one, lake).entry for one in (small, loaded(tmp_path, "kept", 3)))
    compact(str(lake))
    told = command("remove", gone.run, lake=lake)
    assert told.exit_code == 0
    assert kernels(lake) == [{"run": kept.run, "kernels": 1, "ns": 3_000}]
    assert check_lake(str(lake)).problems == ()
    compact(str(lake))
    (file,) = (lake / "table=kernel").iterdir()  # without the rows of the removed run
    with duckdb.connect() as con:
        found = con.execute(f"SELECT run, dur FROM '{file}'").fetchall()
    assert found == [(kept.run, 3_000)]
    with pytest.raises(RunNotFound, match=f"did you mean '{kept.run}'"):
        remove_runs(str(lake), [kept.run[:-1]])
    assert add_run(small, lake).is_new
    assert len(kernels(lake)) == 2


def test_commands_write_rows_and_charts(filled: Path, tmp_path: Path) -> None:
    told = command("run", "fleet.runs", "--format", "json", lake=filled)
    both = [entry_of(filled, name).run for name in (BATCH16, ONE_RANK)]
    assert [row["run"] for row in json.loads(told.stdout)] == both
    told = command("sql", KERNELS, "--format", "csv", "--where", "ranks = 1", lake=filled)
    assert told.stdout.splitlines()[1:] == [f"{entry_of(filled, ONE_RANK).run},3663,67611244"]
    told = command("run", "kernels.top", "--limit", 1, "--format", "json", lake=filled)
    assert [row["run"] for row in json.loads(told.stdout)] == sorted(both)
    chart = tmp_path / "runs.svg"
    assert command("run", "fleet.runs", "--chart", chart, lake=filled).exit_code == 0
    assert chart.read_text().startswith("<svg")
    told = command("run", "kernels.top", "--chart", chart, lake=filled)
    assert "shows one run; choose it with --where" in str(told.exception)
    one = ("--where", "ranks = 1")
    assert command("run", "kernels.top", "--chart", chart, *one, lake=filled).exit_code == 0


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Three runs with one kernel each, whose paths a shell must not take apart."""
    names = ("a", "it's b", "$(touch c)")
    return [
        traces.write(tmp_path / f"{name}.json", traces.kernel(ts=0, dur=dur), note=name)
        for dur, name in enumerate(names, 5)
    ]


def test_each_printed_command_adds_one_run_once(
    tmp_path: Path, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "the lake"
    monkeypatch.chdir(tmp_path)
    told = command("add", *runs, runs[0].name, "--executor", "print", lake=lake.name)
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


def test_printed_commands_have_the_options(runs: list[Path]) -> None:
    options = ("--executor", "print", "--again", "--timeout", 90)
    told = command("add", runs[0], *options, lake="s3://b/l")
    assert told.stdout == f"traceql lake add {runs[0]} --lake s3://b/l --again --timeout 90\n"


def test_nothing_is_printed_for_what_is_no_run_or_fits_no_line(tmp_path: Path) -> None:
    odd = tmp_path / "a\nb.json"
    odd.touch()
    for path, why in ((tmp_path / "none", "no such file or folder"), (odd, "has a line break")):
        told = command("add", path, "--executor", "print", lake=tmp_path / "lake")
        assert isinstance(told.exception, TraceqlError)
        assert why in str(told.exception)
        assert told.stdout == ""
    with pytest.raises(LakeError, match="has other files"):
        add_run(trace_of(tmp_path, "a", 5), tmp_path)
    with pytest.raises(LakeError, match="is not a lake; make one with traceql lake add"):
        traceql.open_lake(tmp_path / "none")


def test_without_ray_the_next_step_is_reported(
    tmp_path: Path, runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    told = command("add", runs[0], "--executor", "ray", lake=tmp_path / "lake")
    assert str(told.exception) == "ray is not installed; run pip install 'traceql[ray]'"
    assert not (tmp_path / "lake").exists()


def test_a_run_that_another_command_loads_for_too_long_is_not_noted(
    tmp_path: Path, runs: list[Path]
) -> None:
    lake = tmp_path / "lake"
    with store_at(lake).locked(lock_key(source_at(runs[0]).digest)):
        told = command("add", runs[0], "--timeout", 1, lake=lake)
    assert told.exit_code == 1
    assert f"failed: {runs[0]}: it did not finish in 1 s; increase --timeout" in told.stderr
    assert entries(store_at(lake)) == []
