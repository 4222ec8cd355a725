"""Recordings that were made one after the other and loaded as ranks of one run."""

from pathlib import Path
from typing import Any

import pytest
import traces
from command_line import called

import traceql

pytestmark = pytest.mark.slow

SECOND = 1_000_000  # us, the unit of a trace


def recorded(folder: Path, *starts: float, **metadata: Any) -> Path:
    """A rank per start, us, with a kernel that lasts a second."""
    for rank, start in enumerate(starts):
        kernel = traces.kernel(ts=start, dur=SECOND)
        traces.write(folder / f"rank{rank}.json", kernel, **metadata)
    return folder


def found(folder: Path) -> list[str]:
    with traceql.open(folder / "run.duckdb") as trace:
        return [
            r["finding"] for r in trace.run("overview.findings") if r["kind"] == "different times"
        ]


def test_ranks_that_do_not_overlap_are_told_once_they_are_loaded(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 3 * SECOND, 0.5 * SECOND)
    loading = called("load", tmp_path, "-o", tmp_path / "run.duckdb")
    assert loading.stderr.decode().splitlines()[-1] == (
        "warning: recorded at another time than rank 0: rank 1 (2.0 s apart); "
        "load each run into a database of its own (-o)"
    )
    assert found(tmp_path) == [
        "Rank 1 was recorded at another time than rank 0: 2.0 s lie between them. "
        "They are not ranks of one run."
    ]


def test_clocks_of_two_machines_say_nothing_of_the_time(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 7_200 * SECOND)
    loading = called("load", tmp_path, "-o", tmp_path / "run.duckdb")
    assert b"warning" not in loading.stderr
    assert found(tmp_path) == []


def test_ranks_of_one_run_overlap(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 0.9 * SECOND)
    traceql.load(tmp_path, tmp_path / "run.duckdb")
    assert found(tmp_path) == []
