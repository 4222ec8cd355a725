"""The same run gives the same rows, to the last digit, however many threads count them."""

import shutil
import time
from pathlib import Path
from typing import Any

import databases
import duckdb
import pytest
import traces
from derived import Tables, insert, make_every_table, rows
from workload_runs import DENSE, loaded

import traceql
from traceql.database.loading.draft import every_table
from traceql.database.loading.load import load
from traceql.database.loading.reading import FileRead
from traceql.sql.execute import drop_derived, make_macros, search_path
from traceql.sql.query import bound, catalog, query_named
from traceql.sql.tables_read import read_by

pytestmark = pytest.mark.slow

ASKED: list[dict[str, Any]] = [
    {},
    {"batch": 32},
    {"tp": 4, "no_wait": True},
    {"peak": "h100", "context": 600},
    {"phase": "prefill", "batch": 2},
]


class Split:
    """A connection whose statements read each table in many small parts, on 4 threads.

    Without that, one thread reads a table of fewer than 122,880 rows.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        con.execute("SET threads = 4")
        con.execute(_SPLIT)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        cursor = self._con.cursor()
        cursor.execute(_SPLIT)
        return cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


_SPLIT = "PRAGMA verify_parallelism"


def connected(trace: traceql.Run, file: Path) -> duckdb.DuckDBPyConnection:
    """A copy of the database with all tables, which one thread reads."""
    shutil.copy(trace.path, file)
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.execute(f"ATTACH '{file}' AS run")
    con.execute(f"SET search_path = '{search_path('run')}'")
    make_every_table(con)
    make_macros(con, read_by(con, query_named("whatif", catalog()).sql).macros)
    return con


def make_anew(con: duckdb.DuckDBPyConnection) -> None:
    drop_derived(con)
    make_every_table(con)


def rows_of_tables(con: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    counted = "SELECT COUNT(*), BIT_XOR(hash(made)) FROM (FROM {}) AS made"
    return {name: con.execute(counted.format(name)).fetchall() for name in every_table()}


def predictions(con: duckdb.DuckDBPyConnection) -> list[Any]:
    query = query_named("whatif", catalog())
    return [con.execute(query.sql, bound(query, asked)).fetchall() for asked in ASKED]


@pytest.mark.parametrize("name", [pytest.param("", id="workload"), "qwen3-32b-tp4-graph-nccl"])
def test_threads_change_no_digit(name: str, tmp_path: Path) -> None:
    trace = databases.trace(name) if name else loaded(DENSE)
    alone = connected(trace, tmp_path / "alone.duckdb")
    make_anew(alone)
    tables, answers = rows_of_tables(alone), predictions(alone)
    assert all(answers)
    together: Any = Split(connected(trace, tmp_path / "together.duckdb"))
    assert predictions(together) == answers
    make_anew(together)
    assert rows_of_tables(together) == tables
    assert predictions(together) == answers


def test_rows_are_in_the_order_of_ranks_whichever_is_inserted_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = FileRead.take

    def slow_at_first(file: FileRead, table: str) -> Any:
        if "rank0" in file.path.name:
            time.sleep(0.05)
        return take(file, table)

    monkeypatch.setattr(FileRead, "take", slow_at_first)
    for rank in range(3):
        traces.write(
            tmp_path / f"rank{rank}.json",
            traces.kernel(ts=10, dur=5),
            traces.host("aten::mm", ts=1, dur=2),
            note=f"{rank}",
        )
    loaded = load(tmp_path, tmp_path / "run.duckdb").database
    with duckdb.connect(str(loaded), read_only=True) as con:
        con.execute("SET search_path = 'main,internal,reference'")
        for table in ("slice", "activity", "track", "trace", "file_count"):
            order = "id" if table == "activity" else "rank"
            found = con.execute(f"SELECT {order} FROM {table} ORDER BY rowid").fetchall()
            assert found == sorted(found), table
        assert con.execute("SELECT rank FROM trace").fetchall() == [(0,), (1,), (2,)]


# Doubles near this one are 2 apart: with 1 added to it, it stays as it is.
HUGE = 2**53


@pytest.mark.parametrize("sizes", [(1, 1, HUGE), (HUGE, 1, 1)])
def test_order_of_operations_changes_no_byte(sizes: tuple[int, ...]) -> None:
    tables = Tables()
    place = {"rank": 0, "role": "pp_send", "step_id": 0}
    insert(tables, "role_work", place | {"layers": [0], "only_communicates": True})
    for number, size in enumerate(sizes):
        insert(tables, "kernel", place | {"id": number, "layer": 0, "dur": 1})
        insert(
            tables,
            "collective",
            {"kernel_id": number, "rank": 0, "op": "send", "group_size": 2, "bytes": size},
        )
    assert rows(tables, "SELECT wire_bytes FROM cost") == [(HUGE + 2,)]
