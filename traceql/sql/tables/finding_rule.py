# One row per kind of finding: the thresholds from which it is reported.
# @schema reference
# @scope  rank
# @column finding     VARCHAR              Kind of finding, as in finding.kind.
# @column notable     DOUBLE               Value from which it is reported.
# @column severe      DOUBLE               Value from which it is severe.
# @column unit        VARCHAR              Unit of notable and severe.
# @column thresholds  MAP(VARCHAR, DOUBLE)  Further thresholds that decide whether it is reported, by name; its file in traceql/analysis/findings explains each.
# @column query       VARCHAR              Query that shows the details.
# @column advice      VARCHAR              What to try.
# @column source      VARCHAR              Where the thresholds come from.

"""Reads the thresholds from the heads of the files in traceql/analysis/findings."""

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from traceql.analysis.findings.catalog import FindingKind, finding_kinds
from traceql.errors import QueryInvalid, QueryNotFound
from traceql.sql.definition import declared_schema
from traceql.sql.query import bound, query_named, shipped_queries


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    kinds = finding_kinds()
    _require_evidence(kinds)
    listed = [
        {
            "finding": one.title,
            "notable": one.notable,
            "severe": one.severe,
            "unit": one.unit,
            "thresholds": {name: value for name, value, _ in one.thresholds},
            "query": one.query,
            "advice": one.advice,
            "source": one.source,
        }
        for one in kinds
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))


def _require_evidence(kinds: Sequence[FindingKind]) -> None:
    """Raises QueryInvalid if a query that shows the details of a finding cannot be run."""
    queries = shipped_queries()  # a load does not depend on the user's own
    for one in kinds:
        try:
            bound(query_named(one.query, queries), {name: None for name, _ in one.parameters})
        except (QueryInvalid, QueryNotFound) as error:
            raise QueryInvalid(f"{one.path}: wrong @evidence: {error}") from None
