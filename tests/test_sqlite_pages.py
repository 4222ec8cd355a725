"""Integers read from the pages of an SQLite file are what SQLite reads."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from changed_bytes import Changes, change, changes
from hypothesis import HealthCheck, given, settings

from traceql.readers import sqlite_pages
from traceql.readers.sqlite_file import SqliteFile, connected
from traceql.readers.sqlite_integers import Integers
from traceql.readers.sqlite_pages import ROWID, Batch, opened_pages

_EDGES = sorted(
    {sign * (2**bits + more) for bits in (0, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 62)
     for sign in (1, -1) for more in (-1, 0, 1)} | {2**63 - 1, -(2**63)}
)  # fmt: skip


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_pages, "_LEAST_BYTES", 0)
    monkeypatch.setattr(sqlite_pages, "_AT_ONCE_BYTES", 1 << 16)


@contextmanager
def integers(path: Path) -> Iterator[Integers]:
    with connected(path) as con, opened_pages(path) as pages:
        yield Integers(SqliteFile(con), pages)


def made(folder: Path, *statements: str, rows: Iterable[Sequence[Any]] = ()) -> Path:
    """A file in which these statements were run; `rows` go into table t."""
    path = folder / "file.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as con, con:
        for statement in statements:
            con.execute(statement)
        for row in rows:
            con.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
    return path


def read(path: Path, *columns: str, table: str = "t", ranges: Any = None) -> list[Batch]:
    with integers(path) as found:
        return list(found.batches(table, columns, ranges))


def rows(batches: Iterable[Batch], *columns: str) -> list[tuple[Any, ...]]:
    """The row number and columns of each row; SQLite must read none of them."""
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        assert batch.rows is not None
        assert all(batch.first <= number <= batch.last for number in batch.rows[ROWID].to_pylist())
        values = (batch.rows[name].to_pylist() for name in (ROWID, *columns))
        found.extend(zip(*values, strict=True))
    return found


def by_sqlite(path: Path, *columns: str, where: str = "TRUE") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as con:
        return con.execute(f"SELECT rowid, {', '.join(columns)} FROM t WHERE {where}").fetchall()


@pytest.mark.parametrize("size", [512, 1024, 4096, 65536])
def test_integers_of_all_sizes_and_nulls(size: int, tmp_path: Path) -> None:
    values = [*_EDGES, None] * 30
    path = made(
        tmp_path,
        f"PRAGMA page_size = {size}",
        "CREATE TABLE t (a INTEGER, name TEXT, b INTEGER, c INTEGER)",
        rows=[(a, "x" * (n % 40), n, values[-n]) for n, a in enumerate(values)],
    )
    found = rows(read(path, "c", "a"), "a", "c")
    assert found == by_sqlite(path, "a", "c")
    assert [a for _, a, _ in found] == values


def test_a_table_of_many_pages_and_levels(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        "PRAGMA page_size = 512",
        "PRAGMA auto_vacuum = FULL",
        "CREATE TABLE u (a INTEGER)",
        "CREATE TABLE t (a INTEGER, b INTEGER)",
        "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 50000) "
        "INSERT INTO t SELECT v * v, -v FROM n",
        "DELETE FROM t WHERE rowid % 7 = 3 OR rowid BETWEEN 20000 AND 30000",
        "INSERT INTO t(rowid, a, b) VALUES (-5, 1, 2), (25000, 3, 4), (9000000000, 5, 6)",
    )
    batches = read(path, "a", "b")
    assert len(batches) > 1
    assert rows(batches, "a", "b") == by_sqlite(path, "a", "b")
    assert (batches[0].first, batches[-1].last) == (-(2**63), 2**63 - 1)
    assert all(one.last + 1 == other.first for one, other in pairwise(batches))


# ---- damaged files ----


def _tree(folder: Path) -> tuple[bytearray, int, int]:
    """A file with a table of three levels, the size of its pages, and the place of its root."""
    path = made(
        folder,
        "PRAGMA page_size = 512",
        "CREATE TABLE t (a INTEGER, b INTEGER)",
        rows=[(number, number * 1000) for number in range(5000)],
    )
    with closing(sqlite3.connect(path)) as con:
        ((root,),) = con.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'")
    return bytearray(path.read_bytes()), 512, (root - 1) * 512


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes(most=4))
def test_changed_bytes_change_nothing_but_who_reads(tmp_path: Path, wanted: Changes) -> None:
    content, size, _ = _tree(tmp_path)
    change(content, size, wanted)
    path = tmp_path / "file.sqlite"
    path.write_bytes(content)
    for batch in read(path, "a", "b"):
        if batch.rows is not None:
            assert rows([batch], "a", "b") == by_sqlite(path, "a", "b", where=batch.condition)
