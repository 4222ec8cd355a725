"""Tables of SQLite by way of a scratch database: types, errors, parts, order, arrows."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from nsys_like import PID, Row, call, kernel, nvtx, write
from nsys_samples import read_export

from traceql.errors import TraceCorrupt
from traceql.readers import relations
from traceql.readers.formats.nsys.export import prepare
from traceql.readers.relations import read_relations
from traceql.readers.scratch import BATCH_ROWS, Scratch
from traceql.readers.sqlite_container import opened_sqlite
from traceql.readers.tables import SCHEMAS, TraceTables

_DECLARED = """
    CREATE TABLE t (a BIGINT DEFAULT NULL, b DOUBLE, c VARCHAR, d BLOB)
"""


def read(folder: Path, rows: Sequence[Sequence[Any]], columns: str = "a, b, c, d") -> Any:
    """What the scratch database has of a table without declared types."""
    path = folder / "run.sqlite"
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f"CREATE TABLE t ({columns})")
        marks = ", ".join("?" * len(columns.split(", ")))
        con.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    found: list[Any] = []

    def prepared(path: Path, scratch: Scratch) -> None:
        scratch.con.execute(_DECLARED)
        with opened_sqlite(path, scratch.folder) as container:
            scratch.fill(container, "t")
        scratch.con.execute("CREATE TABLE rank (rank INTEGER, metadata VARCHAR)")
        found.extend(scratch.rows("SELECT a, b, c, d FROM t ORDER BY rowid"))

    assert list(read_relations(path, prepared)) == []
    return found


def test_values_of_all_types_are_those_of_the_file(tmp_path: Path) -> None:
    nothing = [(None, None, None, None)] * (BATCH_ROWS + 5)  # so that ADBC sees no type at first
    values = [(2**63 - 1, 0.5, "é\0'", b"\xff\0"), (-(2**63), 7, "", b"")]
    assert read(tmp_path, [*nothing, *values]) == [*nothing, *values]


def test_other_types_and_columns_that_are_absent_or_too_many(tmp_path: Path) -> None:
    rows = [(1, b"\xff", "x", 2), (2, 5, None, 3)]
    assert read(tmp_path, rows, "a, c, d, z") == [(1, None, None, None), (2, None, "5", None)]


_MANY = [(n, None, None, None) for n in range(BATCH_ROWS + 10)]


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (
            [("soon", 1, "", b"")],
            "a, b, c, d",
            "row 1: column a has the value 'soon', expected an integer",
        ),
        ([*_MANY, (0.5, 1, "", b"")], "a, b, c, d", f"row {len(_MANY) + 1}: column a has the"),
        ([*_MANY, (1, "x", "", b"")], "a, b, c, d", f"row {len(_MANY) + 1}: column b has the"),
        ([(1,)], "b", "has no column a; "),
    ],
    ids=["text", "fraction in a later batch", "text for a number", "no column"],
)
def test_a_value_of_another_type_is_reported_with_its_row(
    rows: Any, columns: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceCorrupt) as error:
        read(tmp_path, rows, columns)
    assert str(error.value).startswith(f"{tmp_path / 'run.sqlite'}: table t")
    assert message in str(error.value)


# ---- parts ----

_EVENTS = 200


def recorded(folder: Path, *more: Row) -> Path:
    """Calls and kernels of two processes with the same correlations, in a range over all parts."""
    rows: list[Row] = [nvtx("all", ts=0, dur=100 * _EVENTS, color=1)]
    for number in range(_EVENTS):
        pid, ts = PID + number % 2, 100 * number
        rows.append(call(ts=ts, dur=10, correlation=number // 2 + 1, pid=pid))
        rows.append(kernel(ts=ts + 5020, dur=50, correlation=number // 2 + 1, pid=pid))
    return write(folder / "run.sqlite", *rows, *more)


def joined(found: Sequence[TraceTables]) -> list[Any]:
    """The rows of each rank, of all its parts."""
    ranks: list[Any] = [{name: [] for name in SCHEMAS}]
    for part in found:
        for name in SCHEMAS:
            ranks[-1][name] += part.tables[name].to_pylist()
        if not part.continues:
            ranks.append({name: [] for name in SCHEMAS})
    return ranks[:-1]


def test_parts_have_the_rows_of_the_whole_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, scratch = recorded(tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    whole = list(read_export(path))
    assert [part.continues for part in whole] == [False, False]
    monkeypatch.setattr(relations, "PART_ROWS", 25)
    parts = list(read_relations(path, prepare, folder=scratch, threads=3))
    assert len(parts) > 8
    assert max(part.tables["slice"].num_rows for part in parts) < 60
    assert joined(parts) == joined(whole)
    assert not list(scratch.iterdir())
    for rank, tables in enumerate(joined(whole)):
        calls = [row for row in tables["slice"] if row["cat"] == "cuda_runtime"]
        assert [row["parent"] for row in calls] == [None if rank else 0] * (_EVENTS // 2)
        arrows = [(row["slice_out"], row["slice_in"]) for row in tables["flow"]]
        assert [out for out, _ in arrows] == [row["index"] for row in calls]
        launched = {tables["slice"][at]["correlation"] for _, at in arrows}
        assert launched == {row["correlation"] for row in calls}


def test_slices_that_begin_together_are_in_the_order_of_what_encloses(tmp_path: Path) -> None:
    rows = [nvtx(text, ts=10, dur=dur) for text, dur in (("b", 5), ("a", 9), ("c", 5), ("z", 0))]
    (part,) = read_export(write(tmp_path / "run.sqlite", *rows))
    found = [(row["name"], row["depth"]) for row in part.tables["slice"].to_pylist()]
    assert found == [("a", 0), ("b", 1), ("c", 2), ("z", 3)]


def test_a_file_that_is_written_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(tmp_path)
    fill = Scratch.fill

    def changed(self: Scratch, *arguments: Any, **named: Any) -> None:
        fill(self, *arguments, **named)
        path.open("ab").write(bytes(4096))

    monkeypatch.setattr(Scratch, "fill", changed)
    with pytest.raises(TraceCorrupt, match=r"run.sqlite: changed while it was read"):
        list(read_export(path))
