"""Databases that other programs have open, and write-ahead logs that they leave."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
import traces
from command_line import refusal
from shared_files import shared_file

import traceql
from traceql.errors import DatabaseError

pytestmark = pytest.mark.slow

# Writes into a table of its own, which stays in the write-ahead log, and waits.
_WRITES = """
import duckdb, sys, time
con = duckdb.connect(sys.argv[1])
con.execute("SET wal_autocheckpoint = '1TB'")
con.execute("CREATE OR REPLACE TABLE mine AS SELECT 42 AS answer")
print("written", flush=True)
time.sleep(60)
"""


@contextmanager
def writer(database: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another program that has the database open, and is killed at the end."""
    command = [sys.executable, "-c", _WRITES, str(database)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        assert process.stdout.readline() == "written\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def one_rank(folder: Path, rank: int) -> Path:
    return traces.write(folder / f"rank{rank}.json", traces.kernel(ts=rank, dur=1))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = one_rank(tmp_path, 0)
    made = shared_file("rank0.duckdb", lambda path: traceql.load(file, path))
    return Path(shutil.copy(made, tmp_path / "run.duckdb"))


def ranks(database: Path) -> list[int]:
    with traceql.open(database) as trace:
        return [row["rank"] for row in trace.sql("SELECT rank FROM trace ORDER BY rank")]


def test_a_locked_database_is_refused_with_its_holder(database: Path, tmp_path: Path) -> None:
    with writer(database) as process:
        for command in (("info", database), ("load", one_rank(tmp_path, 1), "-o", database)):
            said = refusal(*command)
            assert f"run.duckdb is locked by PID {process.pid} (python" in said
            assert "no traceql database" not in said


def test_a_database_that_this_process_writes_is_refused(database: Path) -> None:
    with duckdb.connect(str(database)), pytest.raises(DatabaseError) as refused:
        traceql.open(database)
    assert "is open in this process, by duckdb.connect; close that connection first" in str(
        refused.value
    )


def test_who_opens_a_replaced_database_again_reads_the_new_one(
    database: Path, tmp_path: Path
) -> None:
    with traceql.open(database) as old:
        traceql.load(one_rank(tmp_path, 1), database)
        assert ranks(database) == [0, 1]
        traceql.load(one_rank(tmp_path, 2), database)
        assert ranks(database) == [0, 1, 2]
        assert len(old.sql("FROM trace")) == 1


def test_a_log_of_a_killed_program_is_brought_in_and_not_lost(
    database: Path, tmp_path: Path
) -> None:
    with writer(database):
        pass
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.duckdb"
    link.symlink_to(database)
    log = tmp_path / "run.duckdb.wal"
    before = database.read_bytes(), log.read_bytes()
    said = refusal("load", one_rank(tmp_path, 1), "-o", link)
    assert said.startswith(f"traceql: {log} has changes that are not in the database yet")
    assert (database.read_bytes(), log.read_bytes()) == before
    _, advice = said.split("python -c ")
    subprocess.run([sys.executable, "-c", *shlex.split(advice)], check=True)
    assert not log.exists()
    traceql.load(tmp_path / "rank1.json", link)
    assert link.is_symlink()
    assert ranks(database) == ranks(link) == [0, 1]
    with duckdb.connect(str(database), read_only=True) as con:
        assert con.execute("SELECT answer FROM mine").fetchall() == [(42,)]


def test_a_log_without_its_database_is_not_left_beside_a_new_one(
    database: Path, tmp_path: Path
) -> None:
    with writer(database):
        pass
    database.unlink()
    said = refusal("load", tmp_path / "rank0.json", "-o", database)
    assert "run.duckdb.wal is left of a database that is gone; remove it" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.json", "run.duckdb.wal"]


def test_a_log_of_another_file_is_refused(database: Path, tmp_path: Path) -> None:
    with writer(database):
        pass
    traceql.load(one_rank(tmp_path, 1), tmp_path / "other.duckdb")
    (tmp_path / "other.duckdb").replace(database)
    said = f"traceql: {database}.wal, beside the database, belongs to another file; move it away"
    for command in (("info", database), ("load", tmp_path / "rank0.json", "-o", database)):
        assert refusal(*command) == said


def test_results_of_experiments_are_distinguished_from_other_files(tmp_path: Path) -> None:
    for name, table in (("results", "traceql_experiment"), ("other", "something")):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as con:
            con.execute(f"CREATE TABLE {table} AS SELECT 1 AS schema_version")
    results, other = tmp_path / "results.duckdb", tmp_path / "other.duckdb"
    said = refusal("info", results)
    assert f"database of experiments; see it with traceql experiment show {results}" in said
    assert "is not a traceql database" in refusal("info", other)
