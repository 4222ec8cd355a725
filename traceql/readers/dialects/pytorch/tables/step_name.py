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
from typing import Any

import duckdb
import pyarrow as pa

from traceql.sql.definition import declared_schema

_SCHEMA = declared_schema(__file__)
_TEXTS = ("name", "is_frame", "place", "source", "phase")
_NUMBERS = tuple(name for name in _SCHEMA.names if name not in _TEXTS)
_COUNTS = ("requests", "tokens")
_NAMED_GROUP = re.compile(r"\(\?P<\w+>")
_ANNOTATIONS = """
    WITH annotation AS MATERIALIZED (
        SELECT DISTINCT slice.name
        FROM slice
        INNER JOIN event_kind USING (rank, cat)
        WHERE event_kind.kind IN ('annotation', 'gpu_annotation')
    )
    SELECT name FROM annotation WHERE regexp_matches(name, $pattern)
"""
_FRAMES = """
    SELECT DISTINCT slice.name
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE
        event_kind.kind = 'frame'
        AND (starts_with(slice.name, 'nn.Module: ') OR slice.name LIKE '%model_executor/%')
        AND regexp_matches(slice.name, $pattern)
        AND slice.rank NOT IN (
            SELECT DISTINCT slice.rank
            FROM slice
            INNER JOIN event_kind USING (rank, cat)
            INNER JOIN incoming USING (name)
            WHERE event_kind.kind IN ('annotation', 'gpu_annotation')
        )
"""
_HAS_FRAMES = "SELECT EXISTS (FROM event_kind WHERE kind = 'frame')"


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    annotations = _named(con, "annotation", _ANNOTATIONS)
    yield annotations
    if con.execute(_HAS_FRAMES).fetchall()[0][0]:
        con.register("incoming", annotations)
        yield _named(con, "frame", _FRAMES)
        con.unregister("incoming")


@cache
def _patterns(kind: str) -> Mapping[str, Mapping[str, str]]:
    """The rows of step_name.csv of a kind, by their patterns, with the place of their source."""
    file = Path(__file__).with_suffix(".csv")
    with file.open(newline="", encoding="utf-8") as opened:
        listed = list(csv.DictReader(opened))
    sources = list(dict.fromkeys(row["source"] for row in listed))
    return {
        row["pattern"]: {**row, "place": str(sources.index(row["source"]))}
        for row in listed
        if row["kind"] == kind
    }


def _named(con: duckdb.DuckDBPyConnection, kind: str, names: str) -> pa.Table:
    """The rows of names of a kind.

    Args:
        names: the statement that returns those that any pattern matches.
    """
    texts = [_NAMED_GROUP.sub("(?:", pattern) for pattern in _patterns(kind)]
    found = con.execute(names, {"pattern": "|".join(texts)}).fetchall()
    return pa.Table.from_pylist([_described(kind, name) for (name,) in found], _SCHEMA)


def _described(kind: str, name: str) -> dict[str, Any]:
    """The row of a name, by the first pattern that matches it."""
    matches = ((row, re.search(pattern, name)) for pattern, row in _patterns(kind).items())
    row, found = next((row, match) for row, match in matches if match)
    stated = {name: _number(text) for name, text in found.groupdict().items()}
    values = {name: stated[name] if name in stated else _implied(name, row) for name in _NUMBERS}
    if row["tokens_each"] and values["generation_tokens"] is None:
        values["generation_tokens"] = int(row["tokens_each"]) * (values["generation_requests"] or 0)
    return {
        "name": name,
        "is_frame": kind == "frame",
        "place": int(row["place"]),
        "source": row["source"],
        "phase": row["phase"] or None,
        **values,
    }


def _number(text: str | None) -> int | None:
    """The number in a text; None without one, or if it exceeds 64 bits."""
    return int(text) if text and len(text) < 19 else None


def _implied(name: str, row: Mapping[str, str]) -> int | None:
    """The value of a quantity that a name does not state: 0 if its phase has no such requests."""
    part, quantity = name.split("_", 1)
    is_absent = row["phase"] in ("idle", "decode" if part == "context" else "prefill")
    return 0 if is_absent and row["kind"] == "annotation" and quantity in _COUNTS else None
