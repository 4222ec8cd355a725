"""A lake of runs: the same answers as their own databases, whatever happens to its files."""

import json
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
from traceql.runs.lake.add import add_run
from traceql.runs.lake.maintenance import check_lake, compact, remove_runs
from traceql.runs.lake.manifest import Entry, entries, write_entry
from traceql.runs.lake.store import store_at
from traceql.sql.query import shipped_queries

ONE_RANK, BATCH16 = "qwen3-8b-tp1-graph", databases.BATCH16
KERNELS = "SELECT run, COUNT(*) AS kernels, SUM(dur) AS ns FROM kernel GROUP BY run ORDER BY run"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two bundled runs."""
    lake = tmp_path_factory.mktemp("lake") / "lake"
    for name in (ONE_RANK, BATCH16):
        assert add_run(databases.trace(name).path, lake).entry.error is None
    return lake


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same lake, its files merged."""
    lake = tmp_path_factory.mktemp("compacted") / "lake"
    for name in (ONE_RANK, BATCH16):
        add_run(databases.trace(name).path, lake)
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


def command(*words: object, lake: Path) -> Result:
    return CliRunner().invoke(cli, ["lake", *map(str, words), "--lake", str(lake)])


@pytest.mark.slow
@pytest.mark.parametrize("name", [ONE_RANK, pytest.param(BATCH16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kept", ["filled", pytest.param("compacted", marks=pytest.mark.slow)])
def test_a_lake_answers_as_the_database_of_the_run(
    name: str, kept: str, request: pytest.FixtureRequest
) -> None:
    own = databases.trace(name)
    with traceql.open_lake(request.getfixturevalue(kept)) as lake:
        for query in shipped_queries():
            rows = lake.run(query, where=f"run LIKE '{own.path.stem}%'").arrow()
            assert rows.column_names[0] == "run"
            assert rows.drop_columns(["run"]).equals(own.run(query).arrow()), query


def runs_of(lake: Path) -> list[str]:
    return [one.run for one in entries(store_at(lake))]


def test_sql_sees_all_runs(filled: Path) -> None:
    own = [databases.trace(name) for name in (BATCH16, ONE_RANK)]
    expected = [one.sql("SELECT COUNT(*), SUM(dur) FROM kernel").rows()[0] for one in own]
    rows = sorted(kernels(filled), key=lambda row: str(row["run"]))
    by_name = {str(row["run"]).rsplit("-", 1)[0]: list(row.values())[1:] for row in rows}
    assert by_name == {
        one.path.stem: list(row.values()) for one, row in zip(own, expected, strict=True)
    }


def test_runs_are_chosen_by_what_they_are(filled: Path) -> None:
    with traceql.open_lake(filled) as lake:
        chosen = lake.run("time.breakdown", where="ranks = 2 AND list_contains(hosts, 'vm')")
        assert [row["rank"] for row in chosen] == [0, 1]
        with pytest.raises(RunNotFound, match="no run has ranks = 9"):
            lake.run("time.breakdown", where="ranks = 9")
        for wrong in ("no_such_column = 1", "model =", "1 = 1); DROP TABLE lake_run; SELECT (1"):
            with pytest.raises(QueryInvalid, match="--where"):
                lake.run("time.breakdown", where=wrong)


def test_an_unknown_table_gives_a_hint(filled: Path) -> None:
    with traceql.open_lake(filled) as lake:
        with pytest.raises(QueryInvalid, match="no table 'kernels'; did you mean 'kernel'"):
            lake.sql("FROM kernels")
        with pytest.raises(QueryInvalid, match="no table 'xyz_abc'; list them with"):
            lake.sql("FROM xyz_abc")


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO 'out.csv'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SET enable_external_access = true",
        "CREATE TABLE t AS SELECT 1",
        "ATTACH 'x.duckdb'",
    ],
)
def test_statements_reach_nothing_but_the_lake(filled: Path, statement: str) -> None:
    with traceql.open_lake(filled) as lake, pytest.raises(TraceqlError):
        lake.sql(statement)


@pytest.mark.slow
def test_the_same_recording_is_added_once(tmp_path: Path) -> None:
    trace, lake = trace_of(tmp_path, "a", 5), tmp_path / "lake"
    assert add_run(trace, lake).is_new
    assert not add_run(trace, lake).is_new
    assert not add_run(loaded(tmp_path, "a", 5), lake).is_new  # the database of that trace
    assert len(entries(store_at(lake))) == 1
    told = command("add", trace, lake=lake)
    assert told.exit_code == 0
    assert "skipped: " in told.stderr


@pytest.mark.slow
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


def test_what_is_no_run_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    told = command("add", tmp_path / "no.json", lake=tmp_path / "lake")
    assert isinstance(told.exception, TraceqlError)
    assert not (tmp_path / "lake").exists()


@pytest.mark.slow
def test_a_folder_of_other_files_is_no_lake(tmp_path: Path, small: Path) -> None:
    with pytest.raises(LakeError, match="has other files"):
        add_run(small, small.parent)
    with pytest.raises(LakeError, match="is not a lake; make one with traceql lake add"):
        traceql.open_lake(tmp_path / "none")


@pytest.mark.slow
def test_two_writers_add_each_run_once(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    sources = [loaded(tmp_path, name, 5, dur) for name, dur in (("a", 1), ("b", 2), ("c", 3))]
    orders = [sources, sources[::-1]]
    command = [sys.executable, "-m", "traceql", "lake", "add", "--jobs", "1", "--lake", str(lake)]
    writers = [subprocess.Popen([*command, *map(str, order)]) for order in orders]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    assert [row["ns"] for row in kernels(lake)] == [6_000, 7_000, 8_000]
    assert check_lake(str(lake)).problems == ()


_KILLED = """
import os, signal, sys
from traceql.runs.lake.store import LocalStore
moves, put = iter(range(1_000)), LocalStore.put
def put_or_die(store, draft, name):
    if next(moves) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    put(store, draft, name)
LocalStore.put = put_or_die
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "put",
    [0, 1, 20, pytest.param(-1, id="row")],
)
def test_a_killed_add_leaves_a_whole_lake(tmp_path: Path, small: Path, put: int) -> None:
    lake = tmp_path / "lake"
    other = add_run(loaded(tmp_path, "other", 3), lake).entry
    files = len(add_run(small, tmp_path / "whole").entry.tables)
    place = files if put < 0 else put
    assert killed_at(place, "add", small, lake)
    assert [one.run for one in entries(store_at(lake))] == [other.run]
    assert kernels(lake) == [{"run": other.run, "kernels": 1, "ns": 3_000}]
    assert {one.kind for one in check_lake(str(lake)).problems} <= {"orphan"}
    assert add_run(small, lake).is_new
    assert [row["ns"] for row in kernels(lake)] == [3_000, 12_000]
    assert check_lake(str(lake)).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "put",
    [0, 10, pytest.param(-2, id="first row"), pytest.param(-1, id="second row")],
)
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


@pytest.mark.slow
def test_a_damaged_file_is_found_told_and_mended(tmp_path: Path, small: Path) -> None:
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    kept = replace(
        stored,
        file=old.relative_to(lake).as_posix(),
        size_bytes=old.stat().st_size,
        sha256=store.sha256(old.relative_to(lake).as_posix()),
    )
    write_entry(
        store,
        replace(entry, layout="older", schema_version=1, tables={**entry.tables, table: kept}),
    )


@pytest.mark.slow
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


@pytest.mark.slow
def test_commands_write_rows_and_charts(filled: Path, tmp_path: Path) -> None:
    told = command("run", "fleet.runs", "--format", "json", lake=filled)
    assert [row["run"] for row in json.loads(told.stdout)] == [
        entry_of(filled, BATCH16).run,
        entry_of(filled, ONE_RANK).run,
    ]
    told = command("sql", KERNELS, "--format", "csv", "--where", "ranks = 1", lake=filled)
    assert told.stdout.splitlines()[1:] == [f"{entry_of(filled, ONE_RANK).run},3663,67611244"]
    told = command("run", "kernels.top", "--limit", 1, "--format", "json", lake=filled)
    assert [row["run"] for row in json.loads(told.stdout)] == runs_of(filled)
    chart = tmp_path / "runs.svg"
    assert command("run", "fleet.runs", "--chart", chart, lake=filled).exit_code == 0
    assert chart.read_text().startswith("<svg")
    told = command("run", "kernels.top", "--chart", chart, lake=filled)
    assert "shows one run; choose it with --where" in str(told.exception)
    one = ("--where", "ranks = 1")
    assert command("run", "kernels.top", "--chart", chart, *one, lake=filled).exit_code == 0
