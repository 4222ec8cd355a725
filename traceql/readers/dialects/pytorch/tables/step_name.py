# One row per name of an annotation or frame that begins a step, and what the name says of the step.
#
# step_name.csv has the patterns of all engines and profilers, with an example of each.
# @kind   scratch
# @scope  rank
# @needs  event_kind, slice
# @column name                  VARCHAR  Name of the event, as in the file.
# @column is_frame              BOOLEAN  Whether it is the name of a Python frame: only ranks without annotations of steps have such rows.
# @column place                 BIGINT   Place of the source among all: the evidence of the lowest one counts.
# @column source                VARCHAR  As in step.
# @column phase                 VARCHAR  Phase that the name states without numbers; NULL if it states none.
# @column context_requests      BIGINT   Requests whose prompt is processed; this and what follows is NULL if the name does not state it.
# @column context_tokens        BIGINT   Their tokens (the sum of sq over these requests).
# @column context_kv_tokens     BIGINT   Sum of sk, the length of their keys and values with these tokens.
# @column context_squares       BIGINT   Sum of sq * sq.
# @column context_products      BIGINT   Sum of sq * sk.
# @column generation_requests   BIGINT   The same five of the requests that generate tokens.
# @column generation_tokens     BIGINT   Sum of sq.
# @column generation_kv_tokens  BIGINT   Sum of sk.
# @column generation_squares    BIGINT   Sum of sq * sq.
# @column generation_products   BIGINT   Sum of sq * sk.

"""Tries the patterns of step_name.csv, in their order, on the distinct names of a trace.

Columns of the file:
    source: what step.source is called for these steps.
    kind: annotation, or frame (a call of a Python function or module).
    phase: what the step is if a pattern without numbers matches.
    tokens_each: how many tokens each request generates where the name has only requests.
    pattern: RE2; its groups are columns of the table.
    example: a name that it matches.
    written_by: the program that writes such names, as repository and file.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import query_tables
from traceql.util.text import literal

_SCHEMA = declared_schema(__file__)
_TEXTS = ("name", "is_frame", "place", "source", "phase")
_COUNTS = ("requests", "tokens")
_GROUP = re.compile(r"\(\?P<(?P<name>\w+)>")
_NUMBERS = tuple(name for name in _SCHEMA.names if name not in _TEXTS)
_ANNOTATIONS = """
    SELECT DISTINCT slice.name
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind IN ('annotation', 'gpu_annotation')
"""
_FRAMES = """
    SELECT DISTINCT slice.name
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE
        event_kind.kind = 'frame'
        AND (starts_with(slice.name, 'nn.Module: ') OR slice.name LIKE '%model_executor/%')
        AND slice.rank NOT IN (
            SELECT DISTINCT slice.rank
            FROM slice
            INNER JOIN event_kind USING (rank, cat)
            INNER JOIN incoming USING (name)
            WHERE event_kind.kind IN ('annotation', 'gpu_annotation')
        )
"""


@cache
def patterns() -> tuple[Mapping[str, str], ...]:
    """The rows of step_name.csv."""
    file = Path(__file__).with_suffix(".csv")
    with file.open(newline="", encoding="utf-8") as opened:
        return tuple(csv.DictReader(opened))


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield _SCHEMA.empty_table()
    annotations = pa.concat_tables(
        [_SCHEMA.empty_table(), *query_tables(con, _matched("annotation", _ANNOTATIONS))]
    )
    yield annotations
    con.register("incoming", annotations)
    yield from query_tables(con, _matched("frame", _FRAMES))
    con.unregister("incoming")


def _matched(kind: str, names: str) -> str:
    """The statement that returns the rows of names of a kind.

    Args:
        names: the statement that returns the names.
    """
    own = [row for row in patterns() if row["kind"] == kind]
    tests = " ".join(
        f"WHEN regexp_matches(name, {literal(row['pattern'])}) THEN {number}"
        for number, row in enumerate(own)
    )
    found = " UNION ALL ".join(_described(number, row) for number, row in enumerate(own))
    return f"""
        WITH candidate AS MATERIALIZED ({names}),
        known AS MATERIALIZED (
            SELECT * FROM (SELECT name, CASE {tests} END AS number FROM candidate)
            WHERE number IS NOT NULL
        )
        {found}
    """


def _described(number: int, row: Mapping[str, str]) -> str:
    """The rows of names that a pattern matches first."""
    sources = list(dict.fromkeys(row["source"] for row in patterns()))
    values = {
        name: f"regexp_extract(name, {literal(_only_group(row['pattern'], name))}, 1)"
        if f"(?P<{name}>" in row["pattern"]
        else _implied(name, row)
        for name in _NUMBERS
    }
    if row["tokens_each"]:
        each = f"{row['tokens_each']} * TRY_CAST({values['generation_requests']} AS BIGINT)"
        said = f"TRY_CAST({values['generation_tokens']} AS BIGINT)"
        values["generation_tokens"] = f"COALESCE({said}, {each})"
    columns = [f"TRY_CAST({value} AS BIGINT) AS {name}" for name, value in values.items()]
    return f"""
        SELECT
            name,
            {row["kind"] == "frame"} AS is_frame,
            CAST({sources.index(row["source"])} AS BIGINT) AS place,
            {literal(row["source"])} AS source,
            NULLIF({literal(row["phase"])}, '') AS phase,
            {", ".join(columns)}
        FROM known
        WHERE number = {number}
    """


def _only_group(pattern: str, name: str) -> str:
    """The pattern with this group alone: DuckDB reads no more than nine."""
    return _GROUP.sub(lambda found: "(" if found["name"] == name else "(?:", pattern)


def _implied(name: str, row: Mapping[str, str]) -> str:
    """The value of a quantity that a name does not state: 0 if its phase has no such requests."""
    part, quantity = name.split("_", 1)
    is_absent = row["phase"] in ("idle", "decode" if part == "context" else "prefill")
    return "0" if is_absent and row["kind"] != "frame" and quantity in _COUNTS else "NULL"
