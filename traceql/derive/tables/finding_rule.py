# One row per kind of finding: the thresholds from which it is reported.
# @scope  rank
# @column finding     VARCHAR              Its name.
# @column notable     DOUBLE               It is reported from this value on.
# @column severe      DOUBLE               It is severe from this value on.
# @column unit        VARCHAR              Unit of both.
# @column thresholds  MAP(VARCHAR, DOUBLE)  Other numbers that decide whether it is reported, by name; the file of the finding says what each is.
# @column query       VARCHAR              The canned query that shows it.
# @column advice      VARCHAR              What to try.
# @column source      VARCHAR              Where the thresholds come from.

"""What the files of traceql/findings say in their heads."""

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
