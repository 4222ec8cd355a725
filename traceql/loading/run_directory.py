"""Loads what run directories hold besides traces; `traceql capture` writes them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from traceql.errors import TraceCorrupt

_KNOWN_SCHEMA = 1


def run_document(trace: Path) -> dict[str, Any] | None:
    """The run.json of a trace in `traces/`; None if `traceql capture` wrote none.

    Raises:
        TraceCorrupt: the file is not JSON, or a newer version of traceql wrote it.
    """
    file = trace.parent.parent / "run.json"
    if trace.parent.name != "traces" or not file.is_file():
        return None
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise TraceCorrupt(f"{file} cannot be read: {error}") from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(version, int):
        return None
    if version > _KNOWN_SCHEMA:
        raise TraceCorrupt(f"{file} was written by a newer version of traceql; update traceql")
    return dict(document)


def rank_in_run(trace: Path) -> dict[str, Any] | None:
    """The entry of run.json for the rank of a trace, together with the job's world_size."""
    document = run_document(trace) or {}
    ranks: list[dict[str, Any]] = document.get("ranks") or []
    for rank in ranks:
        if rank.get("trace") == f"traces/{trace.name}":
            return rank | {"world_size": (document.get("parallel") or {}).get("world_size")}
    return None


def add_runs(con: duckdb.DuckDBPyConnection, traces: Iterable[Path]) -> None:
    """Adds the files of these traces' run directories; a directory loaded before is replaced."""
    for folder in dict.fromkeys(t.parent.parent for t in traces if run_document(t)):
        run = [str(folder)]
        for table, column in (
            ("run_file", "path"),
            ("run_iteration", "run"),
            ("telemetry_sample", "run"),
        ):
            con.execute(f"DELETE FROM {table} WHERE {column} = ?", run)
        document = (folder / "run.json").read_text()
        con.execute(
            "INSERT INTO run_file VALUES (?, ?, ?)",
            [str(folder), document, _text(folder / "metrics.json")],
        )
        if (folder / "steps.jsonl").is_file():
            con.execute(_ITERATIONS, [*run, str(folder / "steps.jsonl")])
        if (folder / "telemetry.parquet").is_file():
            con.execute(_TELEMETRY, [*run, str(folder / "telemetry.parquet")])
        _remark_completeness(con, json.loads(document))


_ITERATIONS = """
    INSERT INTO run_iteration
    SELECT ?, rank, number, begin_unix_ns, requests
    FROM read_json(?, format = 'newline_delimited', columns = {
        rank: 'BIGINT',
        number: 'BIGINT',
        begin_unix_ns: 'BIGINT',
        requests: 'MAP(VARCHAR, BIGINT)'
    })
"""
_TELEMETRY = "INSERT INTO telemetry_sample BY NAME SELECT ? AS run, * FROM read_parquet(?)"


def _text(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None


def _remark_completeness(con: duckdb.DuckDBPyConnection, document: dict[str, Any]) -> None:
    complete = document.get("status") == "complete"
    reason = document.get("reason")
    note = "the run was recorded completely" if complete else f"incomplete: {reason}"
    con.execute("DELETE FROM remark WHERE check_name = 'run complete'")
    con.execute(
        "INSERT INTO remark SELECT MIN(rank), 'run complete', ?, 1, ?, ? FROM trace",
        [int(complete), complete, note],
    )
