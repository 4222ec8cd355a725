"""Loads what run directories hold besides traces; `traceql capture` writes them.

A file that is damaged costs what is in it, and the ledger says so.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from traceql.database.loading.json_document import checked, json_document
from traceql.database.loading.model_config import described_model
from traceql.database.loading.peaks import add_peak_file
from traceql.database.loading.peaks_document import peaks_document
from traceql.database.loading.run_directory import RunDirectory
from traceql.database.loading.run_document import Metrics, RunFacts
from traceql.database.loading.side_files import METRICS, PEAKS, RUN, STEPS, TELEMETRY
from traceql.database.loading.steps import read_steps
from traceql.database.loading.telemetry import read_telemetry
from traceql.util.input_file import Unusable, text


@dataclass(frozen=True)
class _Remark:
    """An entry of the ledger about a run directory; see table load_check."""

    check_name: str
    ok: bool
    note: str
    value: int | None = None
    total: int | None = None


_Rows = tuple[pa.Table, list[_Remark]]
_COMPLETE = "run complete"


def add_runs(con: duckdb.DuckDBPyConnection, runs: Mapping[Path, RunDirectory]) -> None:
    """Adds the files of these run directories; a directory loaded before is replaced.

    Args:
        runs: the run directory of each trace.
    """
    for run in {run.path: run for run in runs.values()}.values():
        _add_run(con, run)


def _add_run(con: duckdb.DuckDBPyConnection, run: RunDirectory) -> None:
    path = str(run.path)
    for table, column in (
        ("run_file", "path"),
        ("run_iteration", "run"),
        ("telemetry_sample", "run"),
        ("peak_file", "run"),
    ):
        con.execute(f"DELETE FROM {table} WHERE {column} = ?", [path])
    metrics, remarks = _metrics(run.path / METRICS)
    con.execute("INSERT INTO run_file VALUES (?, ?, ?)", [path, run.document.text, metrics])
    remarks += [
        _completeness(run.document.value),
        *_odd_facts(run.document.value),
        *_add_rows(con, run, "run_iteration", STEPS, _steps),
        *_add_rows(con, run, "telemetry_sample", TELEMETRY, _telemetry),
        *_add_peaks(con, run),
    ]
    _write_remarks(con, run, remarks)


def _completeness(document: Mapping[str, Any]) -> _Remark:
    complete = document.get("status") == "complete"
    reason = document.get("reason")
    note = "the run was recorded completely" if complete else f"incomplete: {reason}"
    return _Remark(_COMPLETE, complete, note, value=int(complete), total=1)


def _odd_facts(document: Any) -> list[_Remark]:
    try:
        checked(document, RunFacts)
        described_model(document)
    except Unusable as error:
        return [_partly_unknown(RUN, error)]
    return []


def _metrics(file: Path) -> tuple[str | None, list[_Remark]]:
    """The text of metrics.json, None if it is missing or not JSON."""
    if not file.exists():
        return None, []
    try:
        document = json_document(file)
    except Unusable as error:
        return None, [_not_loaded(file.name, error)]
    try:
        checked(document.value, Metrics)
    except Unusable as error:
        return document.text, [_partly_unknown(file.name, error)]
    return document.text, []


def _partly_unknown(file: str, error: Unusable) -> _Remark:
    return _Remark(file, False, f"{error}; values of other types than expected are unknown")


def _not_loaded(file: str, error: Unusable) -> _Remark:
    return _Remark(file, False, f"not loaded: {error}")


def _steps(file: Path) -> _Rows:
    steps = read_steps(file)
    if steps.first_error is None:
        return steps.rows, []
    note = f"lines read; lines in the file; {steps.first_error}"
    return steps.rows, [_Remark(STEPS, False, note, steps.whole, steps.lines)]


def _telemetry(file: Path) -> _Rows:
    return read_telemetry(file), []


def _add_rows(
    con: duckdb.DuckDBPyConnection,
    run: RunDirectory,
    table: str,
    name: str,
    read: Callable[[Path], _Rows],
) -> list[_Remark]:
    """Adds the rows of a file to a table, which has the column `run` besides those of the file."""
    file = run.path / name
    if not file.exists():
        return []
    try:
        rows, remarks = read(file)
    except Unusable as error:
        return [_not_loaded(name, error)]
    con.register("incoming", rows)
    con.execute(f"INSERT INTO {table} BY NAME SELECT ? AS run, * FROM incoming", [str(run.path)])
    con.unregister("incoming")
    return remarks


def _add_peaks(con: duckdb.DuckDBPyConnection, run: RunDirectory) -> list[_Remark]:
    file = run.path / PEAKS
    if not file.exists():
        return []
    try:
        add_peak_file(con, file, str(run.path), *peaks_document(text(file)))
    except Unusable as error:
        return [_not_loaded(PEAKS, error)]
    return []


def _write_remarks(
    con: duckdb.DuckDBPyConnection, run: RunDirectory, remarks: Iterable[_Remark]
) -> None:
    """Replaces the entries about a run; they are those of its first rank."""
    ranks = con.execute(
        "SELECT rank FROM trace WHERE starts_with(path, ? || '/') ORDER BY rank", [str(run.path)]
    ).fetchall()
    numbers = [rank for (rank,) in ranks]
    con.execute(
        "DELETE FROM load_check WHERE list_contains(?, rank) AND list_contains(?, check_name)",
        [numbers, [_COMPLETE, RUN, METRICS, STEPS, TELEMETRY, PEAKS]],
    )
    con.executemany(
        "INSERT INTO load_check VALUES (?, ?, ?, ?, ?, ?)",
        [(numbers[0], r.check_name, r.value, r.total, r.ok, r.note) for r in remarks],
    )
