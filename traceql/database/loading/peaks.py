"""Loads peaks that a user gives: rows for the list of data sheets, and measured ceilings."""

from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path

import duckdb

from traceql.analysis.peaks.rows import PeakRow, peak_rows
from traceql.database.loading.json_document import JsonDocument
from traceql.database.loading.peaks_document import PeaksDocument, peaks_document
from traceql.errors import PeaksInvalid
from traceql.util.files import path_text
from traceql.util.input_file import Unusable, text


def write_peaks(con: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Replaces the rows and the ceilings that were given before; those of run directories stay.

    Args:
        files: CSV files of peaks, and files that `traceql experiment peaks` wrote.

    Raises:
        PeaksInvalid: a file cannot be used; the message says which and why.
    """
    rows: list[PeakRow] = []
    measured: list[tuple[Path, JsonDocument, PeaksDocument]] = []
    for path in files:
        found = _text(path)
        if found.lstrip().startswith("{"):
            measured.append((path, *_document(path, found)))
        else:
            rows += _named(con, path, found)
    con.execute("DELETE FROM user_peak")
    for position, row in enumerate(rows):
        places = ", ".join(["?"] * (1 + len(astuple(row))))
        con.execute(f"INSERT INTO user_peak VALUES ({places})", [position, *astuple(row)])
    con.execute("DELETE FROM peak_file WHERE run IS NULL")
    for path, document, peaks in measured:
        add_peak_file(con, path, None, document, peaks)


def add_peak_file(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    run: str | None,
    document: JsonDocument,
    peaks: PeaksDocument,
) -> None:
    """Adds measured ceilings to `peak_file`."""
    con.execute(
        "INSERT INTO peak_file VALUES (?, ?, ?, ?)",
        [path_text(path.absolute()), run, peaks.device_name, document.text],
    )


def _text(path: Path) -> str:
    try:
        return text(path)
    except Unusable as error:
        raise PeaksInvalid(f"cannot read the peaks in {path}: {error}") from None


def _document(path: Path, found: str) -> tuple[JsonDocument, PeaksDocument]:
    try:
        return peaks_document(found)
    except Unusable as error:
        raise PeaksInvalid(f"cannot read the peaks in {path}: {error}") from None


def _named(con: duckdb.DuckDBPyConnection, path: Path, found: str) -> list[PeakRow]:
    """The rows of a file, whose sources begin with its name."""
    rows = peak_rows(path, found)
    for number, row in enumerate(rows, start=1):
        try:
            con.execute("SELECT regexp_matches('', ?)", [row.device]).fetchall()
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise PeaksInvalid(f"{path}, row {number}: invalid device: {reason}") from None
    name = path_text(Path(path.name))
    return [replace(row, source=f"{name}: {row.source}" if row.source else name) for row in rows]
