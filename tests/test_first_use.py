"""Tables that a load does not make are made when something first reads them, and then kept."""

import errno
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import databases
import duckdb
import pytest
import traces
from command_line import output, process, refusal
from shared_files import shared_file
from traces import all_reduce

import traceql
from traceql.database.excerpt import ExcerptSelection, cut
from traceql.database.loading.draft import LOADED, every_table
from traceql.errors import DatabaseError
from traceql.runs.compare.sides import RESULTS, runs_of
from traceql.runs.lake.add import add_run
from traceql.runs.lake.manifest import entries
from traceql.runs.lake.store import store_at
from traceql.sql.registry import definitions, public_tables
from traceql.util.resources import SCHEMA_VERSION

NEEDS_MORE = "kernels.top"  # a query that reads a table which no load makes
BUNDLED = "qwen3-8b-tp1-graph"


def recording(folder: Path) -> None:
    """Two ranks that compute, communicate and wait in two steps."""
    for rank in (0, 1):
        events = [
            event
            for n in range(2)
            for event in (
                traces.step(ts=200 * n, dur=150, generation=(4, 4)),
                traces.launch(ts=200 * n + 5, correlation=10 * n + 1),
                traces.kernel(ts=200 * n + 10, dur=40 + 20 * rank, correlation=10 * n + 1),
                traces.launch(ts=200 * n + 20, correlation=10 * n + 2),
                all_reduce(
                    ts=200 * n + 80, dur=30 - 10 * rank, ranks=[0, 1], correlation=10 * n + 2
                ),
            )
        ]
        about = {"rank": rank, "world_size": 2}
        traces.write(folder / f"rank{rank}.json", *events, distributedInfo=about)


def own_database(folder: Path, *, complete: bool) -> Path:
    """The database of the tiny run, in a folder of its own."""

    run, name = shared_file("first-use", recording), f"first-use-{complete}.duckdb"
    made = shared_file(name, lambda file: traceql.load(run, file, complete=complete))
    own = folder / f"complete-{complete}"
    own.mkdir()
    return Path(shutil.copy(made, own / "run.duckdb"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """As a load makes it."""
    return own_database(tmp_path, complete=False)


@pytest.fixture
def complete(tmp_path: Path) -> Path:
    """The same with all tables."""
    return own_database(tmp_path, complete=True)


def tables_in(database: Path) -> set[str]:
    with duckdb.connect(str(database), read_only=True) as con:
        found = con.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    return {name for (name,) in found}


def rows_of_all_tables(database: Path) -> dict[str, Any]:
    """How many rows each table has, and a hash of them, when all are made."""
    counted = "SELECT COUNT(*), BIT_XOR(hash(made)) FROM (FROM {}) AS made"
    with traceql.open(database) as trace:
        trace.complete()
        return {name: trace.select(counted.format(name)).rows() for name in every_table()}


@pytest.mark.slow
def test_duckdb_alone_lists_public_tables_that_have_the_rows_of_the_run(tmp_path: Path) -> None:
    run = traceql.load(databases.files(BUNDLED), tmp_path / "run.duckdb").database
    whole = databases.trace(BUNDLED)
    with duckdb.connect(str(run), read_only=True) as con:
        listed = [row[0] for row in con.execute("SHOW TABLES").fetchall()]
        assert set(listed) <= set(public_tables())
        for name in listed:
            counted = f"SELECT COUNT(*) AS n FROM {name}"
            assert con.execute(counted).fetchall() == [(whole.sql(counted).rows()[0]["n"],)], name


def test_a_query_makes_the_tables_that_it_needs_and_keeps_them(database: Path) -> None:
    before = tables_in(database)
    with traceql.open(database) as trace:
        found = trace.query(NEEDS_MORE).rows()
        assert found
    made = tables_in(database) - before
    assert made
    written = database.stat().st_ino
    with traceql.open(database) as trace:
        assert trace.query(NEEDS_MORE).rows() == found
    assert database.stat().st_ino == written
    assert [path.name for path in database.parent.iterdir()] == ["run.duckdb"]


def test_the_users_sql_finds_public_tables_that_are_not_made_yet(
    database: Path, complete: Path
) -> None:
    missing = public_tables().keys() - tables_in(database)
    assert missing
    with traceql.open(database) as one, traceql.open(complete) as other:
        for name in missing:
            select = f"FROM {name} ORDER BY ALL"
            assert one.sql(select).rows() == other.sql(select).rows(), name
        assert [r["name"] for r in one.sql("SHOW TABLES")] == sorted(public_tables())


@pytest.mark.slow
def test_tables_made_later_have_the_same_rows(database: Path, complete: Path) -> None:
    with traceql.open(database) as one, traceql.open(complete) as other:
        for query in (NEEDS_MORE, "overview.findings", "whatif"):
            assert one.query(query).rows() == other.query(query).rows()
    assert rows_of_all_tables(database) == rows_of_all_tables(complete)


def test_an_internal_table_is_named_with_its_schema(database: Path) -> None:
    internal = next(
        name
        for name, one in definitions().items()
        if one.schema == "internal" and name in every_table() - tables_in(database)
    )
    expected = f"traceql: table '{internal}' is internal.{internal}"
    assert refusal("sql", database, f"FROM {internal}") == expected
    output("sql", database, f"FROM internal.{internal}")
    assert internal in tables_in(database)


# --- who else has the file -----------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_make_the_same_tables_at_the_same_time(
    database: Path, complete: Path
) -> None:
    queries = (NEEDS_MORE, "overview.findings")
    with ThreadPoolExecutor() as pool:
        commands = [("run", query, database, "--format", "csv") for query in queries * 2]
        done = list(pool.map(lambda command: process(*command), commands))
    expected = [output("run", query, complete, "--format", "csv") for query in queries]
    assert [one.stdout.decode() for one in done] == expected * 2
    assert "finding" in tables_in(database)
    assert [path.name for path in database.parent.iterdir()] == ["run.duckdb"]


# Makes tables for ever, and says when it has begun.
_ENDLESS = """
import sys, time
import traceql
from traceql.database.loading import draft

def make_tables(con, names, **_):
    con.execute("CREATE TABLE half AS SELECT 1")
    print("begun", flush=True)
    time.sleep(600)

draft.make_tables = make_tables
traceql.open(sys.argv[1]).run(sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="no SIGKILL")
def test_a_process_that_is_killed_while_it_makes_tables_leaves_the_database(
    database: Path,
) -> None:
    before = database.read_bytes()
    command = [sys.executable, "-c", _ENDLESS, str(database), NEEDS_MORE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout
        assert started.stdout.readline() == "begun\n"
        started.kill()
    assert database.read_bytes() == before
    with traceql.open(database) as trace:
        assert trace.query(NEEDS_MORE).rows()
    assert [path.name for path in database.parent.iterdir()] == ["run.duckdb"]
    assert "half" not in tables_in(database)


@pytest.mark.slow
def test_a_database_that_a_load_replaced_while_it_was_open_is_refused(
    database: Path, tmp_path: Path
) -> None:
    more = traces.write(tmp_path / "rank2.json", traces.kernel(ts=1, dur=1))
    with traceql.open(database) as trace:
        assert len(trace.sql("FROM kernel"))
        traceql.load(more, database)
        with pytest.raises(DatabaseError) as refused:
            trace.query(NEEDS_MORE)
        expected = f"{database} was replaced by a load while it was open; open it again"
        assert str(refused.value) == expected
    with traceql.open(database) as trace:
        assert trace.query(NEEDS_MORE).rows()


# --- where nothing can be kept -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_cannot_be_written_gives_answers_and_stays_as_it_is(
    database: Path, complete: Path, what: str
) -> None:
    if (what, os.geteuid()) == ("folder", 0):
        pytest.skip("root writes everywhere")
    protected = database if what == "file" else database.parent
    protected.chmod(0o555)
    before = database.stat().st_mtime_ns, database.read_bytes()
    try:
        with traceql.open(database) as one, traceql.open(complete) as other:
            for query in (NEEDS_MORE, "overview.findings"):
                assert one.query(query).rows() == other.query(query).rows()
            copies = one._tables.file.parent
            assert copies != database.parent
        assert not copies.exists()
        assert (database.stat().st_mtime_ns, database.read_bytes()) == before
        assert [path.name for path in database.parent.iterdir()] == ["run.duckdb"]
    finally:
        protected.chmod(0o755)


@pytest.mark.slow
def test_excerpts_lakes_and_baselines_are_the_same_whether_tables_were_made_before(
    database: Path, complete: Path, tmp_path: Path
) -> None:
    stored, cuts = [], []
    for number, source in enumerate((database, complete)):
        lake = tmp_path / f"lake{number}"
        assert add_run(source, lake).entry.error is None
        (entry,) = entries(store_at(lake))
        files = {name: (file.rows, file.sha256) for name, file in entry.tables.items()}
        del files["traceql_database"]  # has a random number of the load
        stored.append(files)
        cuts.append(tmp_path / f"cut{number}.duckdb")
        cut(source, cuts[-1], ExcerptSelection(from_ns=100_000))
    assert stored[0] == stored[1]
    assert stored[0]["kernel"][0] == 8
    assert tables_in(cuts[0]) == tables_in(cuts[1]) >= public_tables().keys() & set(LOADED)
    assert rows_of_all_tables(cuts[0]) == rows_of_all_tables(cuts[1])
    (one,), (other,) = runs_of([database]), runs_of([complete])
    for name in RESULTS:
        assert one.profile[name].equals(other.profile[name]), name


# --- other versions ------------------------------------------------------------------------------


def test_a_database_of_the_version_before_is_refused(database: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.duckdb"
    with duckdb.connect(str(old)) as con:  # as it had one schema
        con.execute(f"CREATE TABLE traceql_database AS SELECT {SCHEMA_VERSION - 1} schema_version")
    expected = f"traceql: {old} was created by another version of traceql; load the traces into"
    assert refusal("info", old).startswith(expected)
    assert refusal("load", traces.write(tmp_path / "new.json"), "-o", old).startswith(expected)


def test_a_file_that_cannot_be_renamed_over_gives_answers(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is mounted into a container."""
    before = database.read_bytes()
    replace = Path.replace

    def busy(draft: Path, target: Path) -> Path:
        if target == database:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", busy)
    with traceql.open(database) as trace:
        assert len(trace.query(NEEDS_MORE)) > 0
        assert len(trace.query(NEEDS_MORE)) > 0
    assert database.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["main", "internal", "memory", "a.b c'd"])
def test_a_database_may_have_any_name(name: str, database: Path) -> None:
    file = database.rename(database.with_name(f"{name}.duckdb"))
    with traceql.open(file) as trace:
        assert len(trace.query(NEEDS_MORE)) > 0
        assert len(trace.sql("FROM internal.activity")) == len(trace.sql("FROM main.kernel"))


@pytest.mark.slow
def test_a_complete_database_stays_complete(complete: Path) -> None:
    rules = complete.with_name("own.csv")
    rules.write_text("priority,pattern,category\n1,own,gemm\n")
    traceql.load([], complete, rules=[rules])
    with traceql.open(complete) as trace:
        assert trace._tables.made >= every_table()


def test_a_table_of_the_user_is_not_taken_for_ours(database: Path) -> None:
    with duckdb.connect(str(database)) as con:
        con.execute("CREATE SCHEMA mine; CREATE TABLE mine.finding AS SELECT 1 AS a")
        con.execute("CREATE TABLE incoming AS SELECT 1 AS a")
    with traceql.open(database) as trace:
        assert "severity" in trace.sql("FROM finding").arrow().column_names
        assert "unless" in trace.sql("FROM reference.cause").arrow().column_names
