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

from traceql.reader import sqlite_pages
from traceql.reader.sqlite_file import SqliteFile, connected
from traceql.reader.sqlite_integers import Integers
from traceql.reader.sqlite_pages import ROWID, WHOLE_TABLE, Batch, opened_pages

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


@pytest.mark.parametrize(
    "ranges", [[(0, 10)], [(100, 200), (150, 900)], [(5000, 9999), (7, 7)], [(70_000, 80_000)]]
)
def test_row_numbers_choose_pages(ranges: list[tuple[int, int]], tmp_path: Path) -> None:
    path = made(
        tmp_path, "CREATE TABLE t (a INTEGER)", rows=[(number * 3,) for number in range(10_000)]
    )
    wanted = " OR ".join(f"rowid BETWEEN {first} AND {last}" for first, last in ranges)
    found = rows(read(path, "a", ranges=ranges), "a")
    numbers = [number for number, _ in found]
    assert numbers == sorted(set(numbers))
    assert set(found) >= set(by_sqlite(path, "a", where=wanted))
    assert len(found) < 9000


_SQL_READS = {
    "a text": ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES ('x')"),
    "bytes": ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (x'01')"),
    "a fraction": ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1.5)"),
    "a whole number of a column of fractions": (
        "CREATE TABLE t (a DOUBLE)",
        "INSERT INTO t VALUES (7)",
    ),
    "a number as text": ("CREATE TABLE t (a VARCHAR)", "INSERT INTO t VALUES (7)"),
    "a record that goes on in other pages": (
        "CREATE TABLE t (a INTEGER, b TEXT)",
        "INSERT INTO t VALUES (1, hex(zeroblob(9000)))",
    ),
    "a column added later": (
        "CREATE TABLE t (b INTEGER)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD COLUMN a INTEGER DEFAULT 9",
    ),
    "a key that is the row number": (
        "CREATE TABLE t (a INTEGER PRIMARY KEY)",
        "INSERT INTO t VALUES (12)",
    ),
    "a table without row numbers": (
        "CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID",
        "INSERT INTO t VALUES (12)",
    ),
    "a computed column": (
        "CREATE TABLE t (b INTEGER, c INTEGER AS (b + 1), a INTEGER)",
        "INSERT INTO t VALUES (1, 2)",
    ),
    "a view": ("CREATE VIEW t AS SELECT 1 AS a",),
    "no rows": ("CREATE TABLE t (a INTEGER)",),
    "no such column": ("CREATE TABLE t (b INTEGER)", "INSERT INTO t VALUES (1)"),
    "no such table": ("CREATE TABLE u (a INTEGER)",),
}


@pytest.mark.parametrize("statements", _SQL_READS.values(), ids=_SQL_READS)
def test_sqlite_reads_what_is_unusual(statements: Sequence[str], tmp_path: Path) -> None:
    assert read(made(tmp_path, *statements), "a") == [WHOLE_TABLE]


def test_only_pages_with_unusual_values_are_left_to_sqlite(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        "CREATE TABLE t (a INTEGER, b TEXT)",
        rows=[(n if n != 40_000 else 0.5, "text " * 20) for n in range(60_000)],
    )
    batches = read(path, "a")
    (left,) = (batch for batch in batches if batch.rows is None)
    assert left.first <= 40_001 <= left.last
    with closing(sqlite3.connect(path)) as con:
        (count,) = con.execute(f"SELECT COUNT(*) FROM t WHERE {left.condition}").fetchone()
    others = [batch for batch in batches if batch is not left]
    assert rows(others, "a") == by_sqlite(path, "a", where=f"NOT {left.condition}")
    assert count + sum(batch.rows.num_rows for batch in others if batch.rows) == 60_000


def test_values_that_are_not_asked_for_do_not_matter(tmp_path: Path) -> None:
    path = made(
        tmp_path, "CREATE TABLE t (b REAL, a INTEGER, c)", rows=[(0.5, 1, "x"), (None, 2, b"y")]
    )
    assert rows(read(path, "a"), "a") == [(1, 1), (2, 2)]
    assert read(path, "a", "c") == [WHOLE_TABLE]
    assert read(path, "a", "b") == [WHOLE_TABLE]


def test_empty_texts_are_no_integers(tmp_path: Path) -> None:
    path = made(tmp_path, "CREATE TABLE t (a TEXT, b INTEGER)", rows=[(None, 1), (None, None)])
    assert rows(read(path, "a", "b"), "a", "b") == [(1, None, 1), (2, None, None)]


def test_without_compiled_code_sqlite_reads_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_pages, "new_instance", lambda name: None)
    path = made(tmp_path, "CREATE TABLE t (a INTEGER)", rows=[(1,)])
    assert read(path, "a") == [WHOLE_TABLE]


def test_small_and_compressed_files_are_read_by_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path, "CREATE TABLE t (a INTEGER)", rows=[(1,)])
    assert rows(read(path, "a"), "a") == [(1, 1)]
    monkeypatch.setattr(sqlite_pages, "_LEAST_BYTES", path.stat().st_size + 1)
    assert read(path, "a") == [WHOLE_TABLE]


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


def _child(content: bytearray, page: int, number: int) -> int:
    """Where the pointer of a cell of an interior page to another page is."""
    cell = page + 12 + 2 * number
    return page + int.from_bytes(content[cell : cell + 2], "big")


@pytest.mark.parametrize("target", ["root", "twice", "none", "beyond"])
def test_a_tree_that_is_none_is_left_to_sqlite(target: str, tmp_path: Path) -> None:
    content, size, root = _tree(tmp_path)
    assert content[root] == 5
    first, second = _child(content, root, 0), _child(content, root, 1)
    pages = {
        "root": (root // size + 1).to_bytes(4, "big"),
        "twice": content[second : second + 4],
        "none": bytes(4),
        "beyond": (len(content) // size + 1).to_bytes(4, "big"),
    }
    content[first : first + 4] = pages[target]
    (tmp_path / "file.sqlite").write_bytes(content)
    assert read(tmp_path / "file.sqlite", "a") == [WHOLE_TABLE]


def test_a_circle_below_the_root_ends(tmp_path: Path) -> None:
    content, size, root = _tree(tmp_path)
    at = _child(content, root, 0)
    below = (int.from_bytes(content[at : at + 4], "big") - 1) * size
    assert content[below] == 5
    pointer = _child(content, below, 0)
    content[pointer : pointer + 4] = (below // size + 1).to_bytes(4, "big")
    (tmp_path / "file.sqlite").write_bytes(content)
    assert read(tmp_path / "file.sqlite", "a") == [WHOLE_TABLE]


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
