"""Runs of the inputs in ../shared/reports and of others, and their rows."""

from pathlib import Path
from typing import Any

import pytest
from databases import ROOT

import traceql

REPORTS = ROOT.parent / "shared" / "reports"
Event = dict[str, Any]


def report(case: str, file: str) -> Path:
    path = REPORTS / case / file
    if not path.exists():
        pytest.skip("needs the reports")
    return path


def loaded(path: Path, folder: Path) -> traceql.Run:
    return traceql.open(traceql.load(path, folder / "run.duckdb").database)


def rows(run: traceql.Run, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in run.sql(sql).arrow().to_pylist()]


def ledger(run: traceql.Run, check: str) -> tuple[Any, ...]:
    ((*found,),) = rows(run, f"SELECT value, total, ok FROM ledger WHERE check_name = '{check}'")
    return tuple(found)


def border(phase: str, name: str | None = None, *, ts: float, tid: int = 1, **more: Any) -> Event:
    named = {} if name is None else {"name": name}
    return {"ph": phase, **named, "cat": "op", "pid": 1, "tid": tid, "ts": ts, **more}
