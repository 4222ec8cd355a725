"""The command line as a new user meets it."""

import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import databases
import duckdb
import pytest
import traces
from command_line import called, output, process, refusal
from databases import EXAMPLES

import traceql
from traceql.database.cache import cached_database
from traceql.database.loading.discovery import NAMES, RUN
from traceql.sql.query import catalog
from traceql.util.resources import PACKAGE

_HELP = """\
Usage: traceql [OPTIONS] COMMAND [ARGS]...

  Where did my milliseconds go? Query recordings of LLM inference in SQL.

  Shell completion: eval "$(_TRACEQL_COMPLETE=bash_source traceql)" (or
  zsh_source, fish_source).

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Look:
  load        Load traces, folders of ranks or run directories into DuckDB.
  info        Show what ran, the diagnosis, and whether the checks hold.
  run         Run a query.
  sql         Run a read-only SQL statement.
  queries     List the queries, or describe one.
  report      Write a self-contained HTML report.
  ui          Open a run in Perfetto, or two runs on one time axis.

Compare:
  diff        Compare two runs, or repeats of each, and test the differences.
  gate        Fail CI on a performance regression: exit status 0, 1 or 3.
  history     Plot metrics over runs and detect regressions.
  baseline    Save the metrics of runs as a baseline for gate and diff.

Record:
  capture     Record vLLM with torch.profiler into a run directory.
  experiment  Run a measurement plan on vLLM; measure GPU peaks.

Plan:
  advise      Recommend a parallel layout.

Many runs:
  lake        Store many runs as Parquet and query across them.

More:
  demo        Load the bundled four-GPU trace and show where the time went.
  cut         Extract part of a run into a smaller database.
  export      Export a database to another format.
  mcp         Run an MCP server: findings, queries and SQL for an assistant.
"""


@pytest.fixture(scope="module")
def database() -> Path:
    return databases.trace("qwen3-8b-tp1-graph").path


def test_help_and_version() -> None:
    shown = process("--help", COLUMNS="80")
    assert (shown.returncode, shown.stdout.decode(), shown.stderr) == (0, _HELP, b"")
    assert output("--version") == f"traceql, version {traceql.__version__}\n"
    for command in re.findall(r"^  (\w+)  ", _HELP, re.MULTILINE):
        assert output(command, "--help").startswith(f"Usage: traceql {command} ")


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, traceql.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"duckdb", "mcp", "numpy", "pandas", "pyarrow", "rich"} & set(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("queries kernels.", ["kernels.by_category", "kernels.top"]),
        ("run kernels.top DB --rank ", ["0"]),
        ("run kernels.top none.duckdb --rank ", []),
        ("inf", ["info"]),
    ],
)
def test_completion_offers_names_and_values(words: str, offered: list[str], database: Path) -> None:
    line = f"traceql {words}".replace("DB", str(database))
    completed = process(
        _TRACEQL_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(line.count(" "))
    )
    assert (completed.returncode, completed.stderr) == (0, b"")
    assert completed.stdout.decode().split() == [f"plain,{name}" for name in offered]


@pytest.mark.slow
def test_load_says_what_it_did_and_that_it_skips(database: Path) -> None:
    done = process("load", EXAMPLES / "qwen3-8b-tp1-graph", "-o", database)
    assert done.returncode == 0
    assert done.stderr.decode().startswith("skipped: already loaded: ")
    assert "1 of 1 rank, 9,529 slices, 3,663 GPU activities, 9 steps" in done.stdout.decode()
    assert "nothing was lost" in done.stdout.decode()


@pytest.mark.slow
def test_info_marks_a_failed_check(database: Path, tmp_path: Path) -> None:
    assert "✗ ledger" not in output("info", database)
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(database.read_bytes())
    with duckdb.connect(str(broken)) as con:
        check = "check_name = 'events kernel'"
        con.execute(f"UPDATE ledger SET value = value - 1, ok = FALSE WHERE {check}")
    said = output("info", broken, COLUMNS="160")
    assert "✗ ledger: 1 of" in said
    assert re.search(r"\n +0 +events kernel +3,[0-9]+ +3,[0-9]+ +no ", said)


def test_queries_are_listed_and_described() -> None:
    text = output("queries")
    topics = {block.splitlines()[0]: block.splitlines()[1:] for block in text.split("\n\n")}
    listed = [line.split()[0] for lines in topics.values() for line in lines if line[:3].strip()]
    assert sorted(listed) == sorted(catalog())
    assert listed[:3] == ["overview.findings", "time.breakdown", "time.lost"]
    assert "Others:" not in topics, "a query has a name without a topic"
    described = output("queries", "kernels.top")
    assert described.startswith(
        "kernels.top: One row per kernel name, by GPU time without waiting."
    )
    assert "--limit" in described
    assert "Summed duration, ns: work_ns and wait_ns." in described


def test_queries_of_ones_own_are_found_wherever_the_folder_stands(
    database: Path, tmp_path: Path
) -> None:
    (tmp_path / "my.sql").write_text(
        "-- One row.\n-- @param  n  INTEGER = 1  A number.\n-- @column n  INTEGER  It.\n"
        "SELECT $n::INTEGER AS n"
    )
    for arguments in (
        ("run", "--queries", tmp_path, "my", database, "--n", "5"),
        ("run", "my", database, "--n", "5", "--queries", tmp_path),
        ("run", "my", database, "--n", "5", f"--queries={tmp_path}"),
    ):
        assert json.loads(output(*arguments, "--format", "json")) == [{"n": 5}]
    shown = output("run", "my", database, "--format", "csv", TRACEQL_QUERIES=str(tmp_path))
    assert shown == "n\n1\n"


def test_mistakes_are_refused_with_the_next_step(database: Path, tmp_path: Path) -> None:
    assert "did you mean 'kernels.top' or" in refusal("run", "kernel.top", database)
    assert refusal("queries", "memory").endswith("did you mean 'memory.peak' or 'memory.timeline'?")
    assert "did you mean 'queries'?" in refusal("query", database, status=2)
    no_rank = called("run", "kernels.top", database, "--rank", "9").stderr.decode()
    assert no_rank == "no rows: rank 9 is not loaded (loaded: 0)\n"
    missing = tmp_path / "none.duckdb"
    expected = f"{missing} does not exist; create it with traceql load TRACE... -o {missing}"
    assert refusal("info", missing).endswith(expected)
    assert "not a traceql database" in refusal("info", EXAMPLES.parent / "README.md")
    assert "'week' is not one of" in refusal(
        "run", "time.breakdown", database, "--by", "week", status=2
    )
    assert "No such option" in refusal("run", "kernels.top", database, "--top", "3", status=2)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (n INTEGER)",
        "UPDATE kernel SET dur = 0",
        "SELECT 1; DROP TABLE kernel",
        "COPY kernel TO 'FILE'",
        "EXPORT DATABASE 'FILE'",
        "ATTACH 'FILE'",
        "SELECT * FROM read_text('README')",
        "SELECT * FROM 'README'",
        "SELECT * FROM glob('*')",
        "INSTALL httpfs",
        "UPDATE EXTENSIONS",
        "SET enable_external_access = true",
        "SET search_path = 'memory.main'",
        "EXPORT DATABASE 'DATABASE.tmp'",
        "EXPLAIN ANALYZE /* */ COPY kernel TO 'DATABASE.tmp/x'",
        "/* first */ EXPLAIN (ANALYZE) CREATE TABLE memory.main.mine AS SELECT 1",
        "DETACH run",
        "SELECT",
    ],
)
def test_sql_can_neither_write_nor_reach_other_files(
    statement: str, database: Path, tmp_path: Path
) -> None:
    before = database.read_bytes()
    statement = statement.replace("FILE", str(tmp_path / "out"))
    statement = statement.replace("DATABASE.", f"{database}.")
    statement = statement.replace("README", str(EXAMPLES.parent / "README.md"))
    assert refusal("sql", database, statement).startswith("traceql: ")
    assert database.read_bytes() == before
    assert not Path(f"{database}.tmp").exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_traces_opened_by_path_are_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = traces.write(tmp_path / "a.json", traces.kernel(ts=0, dur=1))
    with traceql.open(file) as first:
        rows = first.query("overview.run").rows()
    (kept,) = (tmp_path / "traceql" / "databases").iterdir()  # small traces need no engine
    written = kept.stat().st_mtime_ns
    with traceql.open(file) as second:
        assert second.query("overview.run").rows() == rows
    assert kept.stat().st_mtime_ns == written


@pytest.fixture
def empty_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads that only create a file, and an empty cache."""
    load = "traceql.database.loading.load.load"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(load, lambda _files, database, **_: database.touch())


@pytest.mark.usefixtures("empty_loads")
def test_a_kept_database_is_made_again_when_its_tables_are_defined_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = traces.write(tmp_path / "a.json", traces.host("aten::mm", ts=1, dur=2))
    first = cached_database([trace], None)
    assert cached_database([trace], None) == first
    shutil.copytree(PACKAGE / "sql", tmp_path / "sql")
    monkeypatch.setattr("traceql.database.cache.PACKAGE", tmp_path / "sql")
    copied = cached_database([trace], None)
    with (tmp_path / "sql" / "tables" / "gap.sql").open("a") as file:
        file.write("-- otherwise\n")
    assert cached_database([trace], None) not in (first, copied)


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".", "traces"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("empty_loads")
def test_a_kept_database_is_made_again_when_a_file_beside_its_traces_comes_changes_or_goes(
    name: str, folder: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    traces.write(run / "traces" / "rank0.json", traces.host("aten::mm", ts=1, dur=2))
    if name != RUN:
        (run / RUN).write_text("{}")
    without = cached_database([run], None)
    file = run / folder / name
    file.write_text("{}")
    given = cached_database([run], None)
    assert cached_database([run], None) == given
    file.write_text("{ }")
    changed = cached_database([run], None)
    (run / "notes.txt").write_text("which no load reads")
    assert cached_database([run], None) == changed
    assert len({without, given, changed}) == 3
    file.unlink()
    assert cached_database([run], None) == without


@pytest.mark.slow
def test_demo_answers_on_the_bundled_trace(tmp_path: Path) -> None:
    done = process("demo", "-o", tmp_path / "demo.duckdb")
    assert done.returncode == 0
    shortened, hidden, *_ = done.stderr.decode().splitlines()
    assert shortened == "8 of 46 rows; --limit 0 for all"
    assert hidden.startswith("columns hidden: advice; traceql run step.waterfall")
    said = done.stdout.decode()
    assert "4 of 4 ranks, 52,601 slices" in said
    assert "nothing was lost" in said
    assert "176.176" in said  # the window of rank 0, ms


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"-- Rows.\n-- @chart bar x\nSELECT 1", "@chart bar x"),
        (b"-- Rows.\n-- @param format INTEGER = 1  t\nSELECT 1", "cannot be called format"),
        (b"-- Zeilen f\xfcr mich.\nSELECT 1", "cannot read"),
    ],
)
def test_a_malformed_query_file_hides_no_other(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "folder.sql").mkdir()
    (tmp_path / "broken.sql").write_bytes(content)
    listed = called("queries", "--queries", tmp_path)
    assert listed.returncode == 1
    assert b"kernels.top" in listed.stdout
    assert reason in listed.stderr.decode()
    assert len(listed.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("processes_read")
def test_a_module_in_the_current_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('taken from the folder')")
    monkeypatch.chdir(tmp_path)
    trace = traces.write(tmp_path / "a.json", traces.kernel(ts=0, dur=1))
    loaded = traceql.load(trace, tmp_path / "run.duckdb")
    assert loaded.database.exists()


@pytest.mark.slow
def test_two_loads_at_once_keep_both(tmp_path: Path) -> None:
    files = [
        traces.write(tmp_path / "ranks" / f"rank{rank}.json", traces.kernel(ts=rank, dur=1))
        for rank in range(3)
    ]
    target = tmp_path / "run.duckdb"
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda file: process("load", file, "-o", target), files))
    assert [d.returncode for d in done] == [0, 0, 0]
    with traceql.open(target) as trace:
        assert trace.sql("SELECT COUNT(*) AS n FROM trace").rows() == [{"n": 3}]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["ranks", "run.duckdb"]
