"""Exports of Nsight Systems that are read from their pages give what SQLite alone gives."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from nsys_like import (
    KERNEL,
    call,
    kernel,
    write,
)
from nsys_samples import FOLDER, content

from traceql.errors import TraceCorrupt
from traceql.readers import sqlite_pages
from traceql.readers.formats.nsys import windows
from traceql.readers.formats.nsys.read import read_export
from traceql.readers.tables import SCHEMAS, TraceTables

_SAMPLES = sorted(FOLDER.glob("*.sqlite.gz"))
_WHOLE = 10**6  # rows of a window


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_pages, "_LEAST_BYTES", 0)
    monkeypatch.setattr(sqlite_pages, "_AT_ONCE_BYTES", 1 << 13)  # so that there are many batches


def values(found: Iterator[TraceTables]) -> Any:
    """All that is read of an export, or the error."""
    try:
        return [
            (part.metadata, {name: part.tables[name].to_pylist() for name in SCHEMAS})
            for part in found
        ]
    except TraceCorrupt as error:
        return str(error)


def require_same(path: Path, rows: int = _WHOLE) -> tuple[Any, int]:
    """What is read, and how many batches of it are not read by SQLite."""
    decoded = 0
    batches = sqlite_pages.Pages.batches

    def counted(*arguments: Any) -> Iterator[sqlite_pages.Batch]:
        nonlocal decoded
        for batch in batches(*arguments):
            decoded += batch.rows is not None
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "ROWS", rows)
        patch.setattr(sqlite_pages.Pages, "batches", counted)
        found = values(read_export(path))
        patch.setattr(sqlite_pages, "new_instance", lambda name: None)
        assert found == values(read_export(path))
    return found, decoded


@pytest.mark.slow
@pytest.mark.parametrize("rows", [_WHOLE, 300])
@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda path: path.name.partition(".")[0])
def test_recordings(sample: Path, rows: int, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(content(sample))
    found, decoded = require_same(path, rows)
    assert sum(len(tables["slice"]) for _, tables in found) > 500
    assert decoded > 10


_SIZES: dict[str, Any] = {f"{what}{axis}": 2 for what in ("grid", "block") for axis in "XYZ"}


_MANY = [
    event
    for n in range(200)
    for event in (
        call(ts=n * 100, dur=10, correlation=n + 1),
        kernel(ts=n * 100 + 20, dur=50, correlation=n + 1, **_SIZES),
    )
]


def test_a_fraction_of_a_ns_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_MANY)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute(f"UPDATE {KERNEL} SET end = end + 0.5 WHERE start = 520")
    found, _ = require_same(path)
    assert "column dur has the value '50.5', which is no int64" in found


def test_a_file_that_is_written_meanwhile_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *_MANY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "ROWS", 100)
        parts = read_export(path)
        next(parts)
        with closing(sqlite3.connect(path)) as con, con:
            con.execute("INSERT INTO META_DATA_CAPTURE VALUES ('x', 'y')")
        with pytest.raises(TraceCorrupt, match="changed while it was read"):
            list(parts)
