"""The same run gives the same rows, to the last digit, however many threads count them."""

import shutil
from pathlib import Path
from typing import Any

import databases
import duckdb
import pytest
from workload_runs import DENSE, loaded

import traceql
from traceql.derive import execute
from traceql.derive.definition import Kind
from traceql.derive.registry import definitions
from traceql.query import bound, catalog, query_named

KEPT = [one.name for one in definitions().values() if one.kind in (Kind.TABLE, Kind.VIEW)]
ASKED: list[dict[str, Any]] = [
    {},
    {"batch": 32},
    {"tp": 4, "no_wait": True},
    {"peak": "h100", "context": 600},
    {"phase": "prefill", "batch": 2},
]


def derived(trace: traceql.Trace, file: Path, threads: int) -> duckdb.DuckDBPyConnection:
    """A copy of the database, whose tables are made again."""
    shutil.copy(trace.path, file)
    con = duckdb.connect(file)
    con.execute(f"SET threads = {threads}")
    execute.derive(con)
    return con


def rows_of_tables(con: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    counted = "SELECT COUNT(*), BIT_XOR(hash(made)) FROM (FROM {}) AS made"
    return {name: con.execute(counted.format(name)).fetchall() for name in KEPT}


def predictions(con: duckdb.DuckDBPyConnection) -> list[Any]:
    query = query_named("whatif", catalog())
    return [con.execute(query.sql, bound(query, asked)).fetchall() for asked in ASKED]


@pytest.mark.parametrize(
    "name",
    [pytest.param("", id="workload"), pytest.param(databases.SERVING, marks=pytest.mark.slow)],
)
def test_threads_change_no_digit(name: str, tmp_path: Path) -> None:
    trace = databases.trace(name) if name else loaded(DENSE)
    alone = derived(trace, tmp_path / "alone.duckdb", 1)
    tables, answers = rows_of_tables(alone), predictions(alone)
    assert all(answers)
    alone.execute("SET threads = 4")
    assert predictions(alone) == answers
    alone.close()
    together = derived(trace, tmp_path / "together.duckdb", 4)
    assert rows_of_tables(together) == tables
    assert predictions(together) == answers
