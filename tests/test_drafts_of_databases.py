"""A load writes a draft of the database, which no log is kept for."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
import traces

from traceql.database.loading import load as loading
from traceql.sql.execute import make_tables
from traceql.sql.second_connection import second_connection


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["plain", "it's", 'say "draft"'])
def test_a_load_writes_no_log(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def watched(con: duckdb.DuckDBPyConnection, *names: Any, **options: Any) -> None:
        make_tables(con, *names, **options)
        draft = con.execute("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()
        seen.extend(path.name for path in Path(draft[0][0]).parent.iterdir())

    monkeypatch.setattr(loading, "make_tables", watched)
    (tmp_path / folder).mkdir()
    traces.write(tmp_path / "rank0.json", traces.kernel(ts=10, dur=5))
    loading.load(tmp_path / "rank0.json", tmp_path / folder / "run.duckdb")
    assert "new.duckdb" in seen
    assert not [name for name in seen if name.endswith(".wal")]
    with duckdb.connect(str(tmp_path / folder / "run.duckdb"), read_only=True) as con:
        assert con.execute("SELECT rank, dur FROM kernel").fetchall() == [(0, 5_000)]  # ns


@pytest.mark.parametrize("name", ["draft", "it's", 'say "draft"'])
def test_a_second_connection_finds_the_tables_of_the_chosen_database(name: str) -> None:
    con = duckdb.connect()
    chosen = '"' + name.replace('"', '""') + '"'
    con.execute(f"ATTACH ':memory:' AS {chosen}")
    con.execute(f"USE {chosen}")
    con.execute("CREATE TABLE one AS SELECT 7 AS n")
    assert second_connection(con).execute("FROM one").fetchall() == [(7,)]
