"""Tables made in parts, as for large recordings, are the same as those made at once."""

from pathlib import Path

import databases
import duckdb
import pytest

from traceql.analysis import parts_of_time
from traceql.analysis.layers import attribution
from traceql.database.loading.load import load
from traceql.sql.registry import definitions
from traceql.util import arrow_duckdb

_DIFFERENT = """
    (FROM small.{0} EXCEPT ALL FROM whole.{0})
    UNION ALL
    (FROM whole.{0} EXCEPT ALL FROM small.{0})
"""
_RUNS = [
    "qwen3-8b-tp1-graph",
    "qwen3-32b-tp4-graph-nccl",
    "qwen3-8b-tp2-eager-stack-4layers",
    "qwen3-30b-a3b-tp2-ep-eager-stack-6layers",
    "mi300x-sglang",
    "a100-graph-launches",
    databases.SERVING,
]


@pytest.fixture
def tiny_parts(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred parts and more of each table, and yet not a hundred thousand."""
    scale = 100 if run == databases.SERVING else 1
    monkeypatch.setattr(parts_of_time, "_ROWS", 50 * scale)
    monkeypatch.setattr(parts_of_time, "_SAMPLED", 7)
    monkeypatch.setattr(arrow_duckdb, "_IN_MEMORY_BYTES", 1000 * scale)
    monkeypatch.setattr(arrow_duckdb, "_BATCH_ROWS", 100 * scale)
    monkeypatch.setattr(attribution, "_ROWS", 100 * scale)
    of_arrival = definitions()["collective_arrival"].rows.__globals__
    assert "_STATES_AT_ONCE" in of_arrival
    monkeypatch.setitem(of_arrival, "_STATES_AT_ONCE", 100 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("run", _RUNS)
def test_tables_made_in_parts_are_those_made_at_once(
    run: str, tiny_parts: None, tmp_path: Path
) -> None:
    files = databases.files(run)
    if not files[0].exists():
        pytest.skip("needs a trace that is not bundled")
    whole = databases.trace(run).path
    load(files, small := tmp_path / "small.duckdb", complete=True)
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{small}' AS small (READ_ONLY); ATTACH '{whole}' AS whole (READ_ONLY)")
        kept = {n: f"{o.schema}.{n}" for n, o in definitions().items() if o.kind.is_kept}
        del kept["traceql_database"]  # has a random number of the load
        different = {n: con.sql(_DIFFERENT.format(place)).fetchall() for n, place in kept.items()}
    assert {name: rows[:3] for name, rows in different.items() if rows} == {}
