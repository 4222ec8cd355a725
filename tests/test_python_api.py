"""What users of Python rely on, on a bundled recording."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import databases
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from shared_files import shared_file

import traceql
from traceql.database.loading.draft import every_table
from traceql.database.notices import Done, first_uses_reported
from traceql.sql.registry import definitions, public_tables

BUNDLED = "qwen3-8b-tp1-graph"
# By hand: the trace file has 3,663 activities of the GPU.
KERNELS = 3_663


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """As a load makes it."""
    files = databases.files(BUNDLED)
    loaded = shared_file(f"{BUNDLED}-as-loaded.duckdb", lambda file: traceql.load(files, file))
    return Path(shutil.copy(loaded, tmp_path / "run.duckdb"))


@pytest.fixture
def run(database: Path) -> Iterator[traceql.Run]:
    with traceql.open(database) as run:
        yield run


@pytest.fixture(scope="module")
def complete() -> traceql.Run:
    return databases.trace(BUNDLED)


@pytest.fixture(scope="module")
def diagnosed() -> traceql.Run:
    """A run with two findings."""
    return databases.trace("qwen3-32b-tp4-graph-nccl")


def tables_in(database: Path) -> set[str]:
    with duckdb.connect(str(database), read_only=True) as con:
        found = con.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    return {name for (name,) in found}


# --- results -------------------------------------------------------------------------------------


def test_a_result_has_the_same_rows_in_every_form(complete: traceql.Run) -> None:
    result = complete.query("kernels.top", limit=3)
    rows = result.rows()
    assert len(result) == len(rows) == 3
    assert list(result) == [result[0], result[1], result[-1]] == rows
    assert result.fetchall() == [tuple(row.values()) for row in rows]
    assert result.arrow().to_pylist() == result.pl().to_dicts() == rows
    assert result.df()["total_ns"].tolist() == [row["total_ns"] for row in rows]
    # Other programs read it as Arrow.
    assert duckdb.execute("FROM result").fetchall() == result.fetchall()
    assert pl.DataFrame(result).to_dicts() == pa.table(result).to_pylist() == rows
    chart = result.chart().to_dict()
    assert (chart["mark"]["type"], chart["encoding"]["x"]["field"]) == ("bar", "work_ns")
    assert (result[-1], result[1:]) == (rows[-1], rows[1:])
    with pytest.raises(IndexError, match="there is no row 3: the result has 3 rows"):
        result[3]


def test_without_polars_the_error_says_how_to_install_it(
    complete: traceql.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(traceql.TraceqlError, match="run pip install polars"):
        complete.sql("SELECT 1 AS a").pl()


def test_a_run_is_gated_as_its_file(complete: traceql.Run) -> None:
    with pytest.raises(traceql.TraceqlError, match=str(complete.path)):
        traceql.gate(complete, [complete], fail_on="decode.step > 2%")


def test_unknown_names_are_refused_with_the_next_step(complete: traceql.Run) -> None:
    with pytest.raises(traceql.TraceqlError, match="has no parameter 'top'"):
        complete.query("kernels.top", top=3)
    with pytest.raises(traceql.TraceqlError, match=r"did you mean 'kernels\.top'"):
        complete.query("kernel.top")
    with pytest.raises(KeyError, match="did you mean 'kernel'"):
        complete.tables["kernels"]


# --- tables --------------------------------------------------------------------------------------


def test_tables_and_columns_are_those_of_the_database(run: traceql.Run) -> None:
    assert "waterfall" not in tables_in(run.path)
    table = run.tables["waterfall"]
    assert len(table) == len(table.df()) > 0
    assert run.sql("FROM waterfall").rows() == table.read().rows()
    assert set(run.tables) == set(public_tables())
    described = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = $table"
    for name, table in run.tables.items():
        expected = run.sql(described, {"table": name}).fetchall()
        assert [(column.name, column.comment) for column in table.columns] == expected, name
    kernel = run.tables["kernel"]
    assert len(kernel) == KERNELS
    assert next(column for column in kernel.columns if column.name == "ts").type == "BIGINT"
    assert "\n  ts BIGINT: Start on the GPU, ns since the run's first event.\n" in repr(kernel)


# --- statements of the user ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_sql_reads_data_frames_that_are_given_by_name(kind: type, complete: traceql.Run) -> None:
    owners = kind({"category": ["gemm", "memcpy"], "owner": ["ana", None]})
    joined = """
        SELECT owner, COUNT(*) AS kernels FROM kernel JOIN owners USING (category)
        GROUP BY ALL ORDER BY ALL
    """
    counted = "SELECT COUNT(*) AS n FROM kernel WHERE category = $category"
    of = {one: complete.sql(counted, {"category": one})[0]["n"] for one in ("gemm", "memcpy")}
    found = complete.sql(joined, frames={"owners": owners}).fetchall()
    assert found == [("ana", of["gemm"]), (None, of["memcpy"])]
    with pytest.raises(traceql.TraceqlError, match="owners does not exist"):
        complete.sql(joined)  # neither in scope nor left from the statement before


def test_sql_is_confined_and_con_is_not(run: traceql.Run, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("word\nsecret\n")
    read = f"FROM '{tmp_path / 'secret.csv'}'"
    local = pd.DataFrame({"category": ["gemm"]})
    for statement in (read, "FROM local", f"COPY kernel TO '{tmp_path / 'kernel.csv'}'"):
        with pytest.raises(traceql.TraceqlError):
            run.sql(statement)
    assert len(local) == 1
    assert run.con.sql(read).fetchall() == [("secret",)]
    with pytest.raises(traceql.TraceqlError):  # as before, once there is a connection
        run.sql(read)


def test_con_joins_data_frames_in_scope_and_has_all_public_tables(run: traceql.Run) -> None:
    wanted = pd.DataFrame({"category": ["gemm"]})
    counted = "SELECT COUNT(*) FROM kernel JOIN wanted USING (category)"
    expected = run.sql("SELECT COUNT(*) AS n FROM kernel WHERE category = 'gemm'")[0]["n"]
    assert run.con.sql(counted).fetchall() == [(expected,)]
    assert len(wanted) == 1
    assert run.con.execute("SHOW TABLES").fetchall() == [(name,) for name in public_tables()]


def test_con_reads_what_was_made_since_and_keeps_what_the_user_made(run: traceql.Run) -> None:
    run.con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS a")
    before = tables_in(run.path)
    later = next(
        name
        for name, one in definitions().items()
        if one.schema == "internal" and name in every_table() - before
    )
    run.complete()
    counted = f"SELECT COUNT(*) AS n FROM internal.{later}"
    assert run.con.sql(counted).fetchall() == run.sql(counted).fetchall()
    assert run.con.sql("FROM mine").fetchall() == [(1,)]
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        run.con.execute("DELETE FROM kernel")


# --- other connections ---------------------------------------------------------------------------

_COUNTS = """
import duckdb, sys
con = duckdb.connect(sys.argv[1], read_only=True)
print(con.execute("SELECT COUNT(*) FROM kernel").fetchone()[0])
"""


def test_duckdb_opens_the_file_while_a_run_is_open_and_makes_tables(database: Path) -> None:
    with traceql.open(database) as one, traceql.open(database) as other:
        one.con.execute("SELECT 1")
        with duckdb.connect(str(database), read_only=True) as con:
            found = one.query("kernels.top").rows()
            assert other.query("kernels.top").rows() == found
            assert con.execute("SELECT COUNT(*) FROM kernel").fetchall() == [(KERNELS,)]
            other.complete()
            assert one.query("kernels.top").rows() == found
            with traceql.open(database) as third:
                assert third.query("kernels.top").rows() == found
        with duckdb.connect(str(database), read_only=True) as con:
            assert con.execute("SELECT COUNT(*) FROM finding").fetchall() == [(0,)]
        counted = subprocess.run(
            [sys.executable, "-c", _COUNTS, database], capture_output=True, text=True, check=True
        )
        assert counted.stdout == f"{KERNELS}\n"


def test_threads_share_a_run(database: Path, complete: traceql.Run) -> None:
    names = ("kernels.top", "overview.findings", "idle.gaps", "steps.timeline", "layers.roles")
    with traceql.open(database) as run, ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda name: run.query(name).rows(), names * 6))
    assert found == [complete.query(name).rows() for name in names] * 6


def test_an_interrupt_ends_a_statement_and_the_making_of_tables(run: traceql.Run) -> None:
    made: list[int] = []

    @contextmanager
    def interrupting(_: Path) -> Iterator[Done]:
        def done(count: int, _total: int) -> None:
            made.append(count)
            run.interrupt()

        yield done

    before = tables_in(run.path)
    with first_uses_reported(interrupting), pytest.raises(traceql.TraceqlError, match="interrupt"):
        run.complete()
    assert made == [1]
    assert tables_in(run.path) == before
    endless = "SELECT COUNT(*) AS n FROM range(1_000_000) AS a, range(10_000_000) AS b"
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(run.sql, endless)
        while not counting.done():
            run.interrupt()
            wait([counting], 0.05)
    with pytest.raises(traceql.TraceqlError, match="Interrupted"):
        counting.result()
    assert run.query("kernels.top").rows()


# --- the run as a whole --------------------------------------------------------------------------


def test_findings_are_those_of_the_query(diagnosed: traceql.Run) -> None:
    rows = diagnosed.query("overview.findings").rows()
    assert [one.headline for one in diagnosed.findings] == [row["headline"] for row in rows]
    first = diagnosed.findings[0]
    assert (first.number, first.cause, first.remedy) == (1, rows[0]["cause"], rows[0]["remedy"])
    assert diagnosed.query(first.query, **first.parameters).rows()
    shown = repr(diagnosed.findings)
    assert shown.startswith(f"1. {first.severity}: {first.headline}")
    assert f'see run.query("{first.query}")' in shown


def test_a_run_displays_its_findings(diagnosed: traceql.Run) -> None:
    assert repr(diagnosed).endswith("4 ranks of NVIDIA H200, 28 steps, 24,312 kernels>")
    shown = diagnosed._repr_html_()
    assert "4 ranks of NVIDIA H200" in shown
    assert shown.count("<li><b>") == len(diagnosed.findings) == 2


def test_a_closed_run_says_so(database: Path) -> None:
    with traceql.open(database) as run:
        pass
    assert repr(run) == f"<Run {database}, closed>"
    with pytest.raises(traceql.TraceqlError, match="is closed; open it again"):
        run.sql("SELECT 1 AS a")


def test_the_earlier_names_are_kept_for_a_release(database: Path) -> None:
    with traceql.Trace(database) as trace:
        assert trace.run("kernels.top").rows() == trace.query("kernels.top").rows()


def test_every_exported_name_is_there() -> None:
    assert [name for name in traceql.__all__ if not hasattr(traceql, name)] == []


def test_a_run_is_compared_with_another(complete: traceql.Run) -> None:
    with complete.diff(complete) as comparison:
        assert comparison.same_recordings
        assert [one.database for one in (*comparison.base, *comparison.new)] == [complete.path] * 2


def test_a_report_has_the_form_that_its_name_says(complete: traceql.Run, tmp_path: Path) -> None:
    complete.report(tmp_path / "report.json")
    assert '"overview.findings"' in (tmp_path / "report.json").read_text()
    with pytest.raises(traceql.TraceqlError, match=r"name a \.html or \.json"):
        complete.report(tmp_path / "report.pdf")


def test_the_ui_gets_the_place_of_a_finding(
    diagnosed: traceql.Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Any] = []
    monkeypatch.setattr("webbrowser.open", served.append)
    serve = "traceql.present.ui.server.PageServer.serve"
    monkeypatch.setattr(serve, lambda _, site: served.append(site))
    diagnosed.ui(finding=1, offline=True)
    link, site = served
    assert link == capsys.readouterr().out.strip()
    assert f"{diagnosed.path.stem}.pftrace" in str(site.files)
    (place,) = diagnosed.sql("SELECT ts FROM finding WHERE rank_order = 1").fetchall()
    assert f"&ts={place[0]}&" in link


def test_perfetto_sees_the_same_kernels_at_the_same_times(complete: traceql.Run) -> None:
    kernels = "SELECT ts, dur, name FROM kernel WHERE kind = 'kernel' ORDER BY ALL"
    with complete.perfetto(rank=0) as tp:
        seen = tp.query("SELECT ts, dur, name FROM slice WHERE category = 'kernel'")
        found = sorted((row.ts, row.dur, row.name) for row in seen)
    assert found == complete.sql(kernels).fetchall()
    with pytest.raises(traceql.TraceqlError, match="has no rank 5"):
        complete.perfetto(rank=5)


def test_advice_is_predicted_from_a_run(complete: traceql.Run) -> None:
    advice = traceql.advise(complete, model="qwen3-8b", gpus=2)
    assert advice.is_recorded
    assert advice.recommended in (None, advice.candidates[0])


def test_a_gate_of_one_run_a_side_has_no_verdict() -> None:
    names = ("qwen3-8b-tp1-graph", "qwen3-32b-tp4-graph-nccl")
    runs = [databases.trace(name).path for name in names]
    decided = traceql.gate(*runs, fail_on="decode.step > 2%")
    assert (str(decided.verdict), decided.exit_status) == ("not comparable", 3)
