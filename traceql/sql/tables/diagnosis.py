# One row per cause: whether the run has it, what rules it out or what is missing, and what ending it saves.
#
# The needs of all causes are added to those named here.
# @scope  run
# @needs  time_scale, time_unit, trace
# @column position         BIGINT     Position in the catalogue, from 0: causes take lost time in this order.
# @column cause            VARCHAR    Id of the cause (reference.cause).
# @column title            VARCHAR    Its name in words.
# @column subject          VARCHAR    What it is about (reference.cause).
# @column state            VARCHAR    confirmed, ruled out or undecided.
# @column reason           VARCHAR    What rules it out, or what to record to decide it; NULL where it is confirmed.
# @column severity         VARCHAR    Of a confirmed cause: severe, notable or remark.
# @column headline         VARCHAR    Of a confirmed cause, what happens, in at most 15 words.
# @column evidence         VARCHAR[]  Sentences with the numbers that show it.
# @column remedy           VARCHAR    What to do: a line to paste.
# @column saving_ns        DOUBLE     Estimate of what a step would be shorter without it, ns; NULL if the gain is throughput or not known.
# @column saving_low_ns    DOUBLE     Low end of its interval, ns.
# @column saving_high_ns   DOUBLE     High end, ns.
# @column saving_pct       DOUBLE     saving_ns in percent of a step without the profiler (with it, if only that is known).
# @column gain_pct         DOUBLE     Estimate of the gain in throughput, percent; NULL if the saving is time.
# @column explained_ns     DOUBLE     What it explains of the time lost per step, ns.
# @column unknowns         VARCHAR    What was not measured, and what would show it; NULL if nothing is missing.
# @column fine             VARCHAR    What was measured and is good, with its number; NULL if that is not known.
# @column query            VARCHAR    Query that shows the details.
# @column parameters       MAP(VARCHAR, VARCHAR)  Parameters of that query, by name.
# @column phase            VARCHAR    Phase that it shows in most; NULL if it is of no phase.
# @column rank             BIGINT     Rank of an example: where the trace shows it best; NULL if it has no place.
# @column ts               BIGINT     Start of the example, ns since the run's first event.
# @column dur              BIGINT     Duration of the example, ns.

"""Collects the rows of all causes, and decides them (traceql/analysis/diagnosis/evaluation.py)."""

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from traceql.analysis.diagnosis.catalog import causes
from traceql.analysis.diagnosis.evaluation import Decision, Units, decisions
from traceql.analysis.diagnosis.texts import milliseconds
from traceql.readers.dialects.registry import replaced, words
from traceql.sql.definition import declared_schema

_UNITS = """
    SELECT ns, part = 'lost' AS is_lost, COALESCE(number, -1) AS number FROM time_unit ORDER BY unit
"""
_SCALE = "SELECT steps, devices, step_ns, COALESCE(scale, 'nan') AS scale FROM time_scale"
_NO_TIME = (1, 1, 0.0, float("nan"))


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    units = con.execute(_UNITS).fetchnumpy()
    steps, devices, step_ns, scale = next(iter(con.execute(_SCALE).fetchall()), _NO_TIME)
    time = Units(
        np.asarray(units["ns"], np.float64),
        np.asarray(units["is_lost"], np.bool_),
        np.asarray(units["number"], np.int64),
        steps,
        devices,
        step_ns,
        scale,
    )
    known = causes()
    evidence: dict[str, Mapping[str, Any]] = {}
    for name, cause in known.items():
        row_of_cause = con.sql(f"FROM {cause.table}").to_arrow_table()
        evidence.update((name, row) for row in _with_claims(row_of_cause))
    terms = _terms(con)
    found = [
        _in_terms(_row(position, one), terms)
        for position, one in enumerate(decisions(known, evidence, time))
    ]
    return pa.Table.from_pylist(found, declared_schema(__file__))


def _with_claims(row: pa.Table) -> Iterator[dict[str, Any]]:
    """The row of a cause, if it has one; what it claims of each unit as two arrays."""
    if not len(row) or "claims" not in row.column_names:
        yield from row.to_pylist()
        return
    claims = row.column("claims").combine_chunks()
    (found,) = row.drop_columns("claims").to_pylist()
    if claims[0].is_valid:
        each = claims.flatten()
        found["claims"] = (
            each.field("unit").to_numpy(zero_copy_only=False),
            each.field("ns").cast(pa.float64()).to_numpy(zero_copy_only=False),
        )
    yield found


def _terms(con: duckdb.DuckDBPyConnection) -> Mapping[str, str]:
    """What to write for which words, if all ranks are of one dialect: NPU for GPU."""
    found = con.sql("SELECT DISTINCT dialect FROM trace WHERE rank IS NOT NULL").fetchall()
    return words(*found[0]) if len(found) == 1 else {}


def _in_terms(row: dict[str, Any], terms: Mapping[str, str]) -> Mapping[str, Any]:
    for name in ("title", "reason", "headline", "remedy", "unknowns", "fine"):
        row[name] = row[name] and replaced(row[name], terms)
    return row | {"evidence": [replaced(text, terms) for text in row["evidence"]]}


def _with_saving(text: str, one: Decision) -> str:
    """A sentence of a cause, in which {saving} stands for what it saves per step."""
    return text.replace("{saving}", milliseconds(one.saving_ns or 0.0))


def _row(position: int, one: Decision) -> dict[str, Any]:
    row, cause = one.row, one.cause
    parameters = {name: value for name, value in row.get("parameters") or () if value is not None}
    is_confirmed = one.state == "confirmed"
    return {
        "position": position,
        "cause": cause.name,
        "title": cause.title,
        "subject": cause.group,
        "state": one.state,
        "reason": one.reason,
        "severity": one.severity,
        "headline": _with_saving(row["headline"], one) if is_confirmed else None,
        "evidence": [_with_saving(text, one) for text in row.get("evidence") or () if text],
        "remedy": row.get("remedy") if is_confirmed else None,
        "saving_ns": one.saving_ns,
        "saving_low_ns": one.low_ns,
        "saving_high_ns": one.high_ns,
        "saving_pct": one.saving_pct if one.saving_ns is not None else None,
        "gain_pct": row.get("gain_pct") if is_confirmed else None,
        "explained_ns": one.explained_ns,
        "unknowns": row.get("unknowns") if is_confirmed else None,
        "fine": row.get("fine") if one.state == "ruled out" else None,
        "query": cause.query,
        "parameters": parameters,
        "phase": row.get("phase"),
        "rank": row.get("rank"),
        "ts": row.get("ts"),
        "dur": row.get("dur"),
    }
