# One row per kind of finding: the thresholds from which it is reported.
# @scope  rank
# @column finding     VARCHAR              Kind of finding, as in finding.kind.
# @column notable     DOUBLE               Value from which it is reported.
# @column severe      DOUBLE               Value from which it is severe.
# @column unit        VARCHAR              Unit of notable and severe.
# @column thresholds  MAP(VARCHAR, DOUBLE)  Further thresholds that decide whether it is reported, by name; its file in traceql/findings explains each.
# @column query       VARCHAR              Query that shows the details.
# @column advice      VARCHAR              What to try.
# @column source      VARCHAR              Where the thresholds come from.

"""Reads the thresholds from the heads of the files in traceql/findings."""

import duckdb
import pyarrow as pa

from traceql.findings.catalog import finding_kinds
from traceql.table_head import declared_schema


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
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
        for one in finding_kinds()
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
