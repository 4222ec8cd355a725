"""The row of a cause, from tables written by hand: one situation and nothing else."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from traceql.analysis.diagnosis.catalog import causes
from traceql.sql.registry import definitions
from traceql.util.text import source_text

Rows = Sequence[Mapping[str, Any]]
# One run of one device and a step of 10 ms, as far as no test says otherwise.
ONE_RUN: Mapping[str, Rows] = {
    "time_scale": [
        {"ranks": 1, "devices": 1, "steps": 1, "profiled_ns": 1e7, "busy_ns": 1e7, "lost_ns": 0.0,
         "step_ns": 1e7}
    ],
    "wording": [{"graphs": "CUDA graphs", "device": "GPU"}],
    "engine_setting": [{"has_run_json": False, "has_config": False}],
    "lost_records": [{"launches": 0}],
}  # fmt: skip


def row_of(name: str, **tables: Rows) -> dict[str, Any]:
    """The row that a cause makes of these tables; those that it needs and that are not given are
    empty, and columns that a row does not name are NULL."""
    cause = causes()[name]
    known = definitions()
    con = duckdb.connect()
    for needed in cause.needs:
        definition = known[needed]
        if not definition.columns:  # a macro
            con.execute(source_text(definition.path))
            continue
        columns = {one.name: one.type for one in definition.columns}
        con.execute(f"CREATE TABLE {needed} ({', '.join(map(' '.join, columns.items()))})")
        for row in tables.get(needed, ONE_RUN.get(needed, ())):
            assert row.keys() <= columns.keys(), (needed, row.keys() - columns.keys())
            con.execute(
                f"INSERT INTO {needed} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                list(row.values()),
            )
    unknown = tables.keys() - set(cause.needs)
    assert not unknown, f"{name} does not read {unknown}"
    found: pa.Table = con.sql(cause.select).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    assert len(rows) == 1, name
    return rows[0]


def lost(unit: int, ns: int, **more: Any) -> dict[str, Any]:
    """A unit of lost time."""
    return {
        "unit": unit, "part": "lost", "rank": 0, "device": 0, "step_id": 1, "number": 1, "ns": ns,
        "is_waiting": True, "longest_ts": 0, "longest_ns": ns, "intervals": 1,
    } | more  # fmt: skip


def require_short(row: Mapping[str, Any]) -> None:
    """A headline of at most 15 words, and evidence without unknown numbers."""
    assert len(re.findall(r"\S+", row["headline"])) <= 15
    assert row["remedy"]
