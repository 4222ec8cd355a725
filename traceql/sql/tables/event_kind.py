# One row per rank and event category: which kind of event the category is.
# @scope  rank
# @needs  slice, trace
# @column rank  BIGINT   Rank.
# @column cat   VARCHAR  Event category, as in the file and in slice.
# @column kind  VARCHAR  kernel, memcpy, memset, launch (runtime or driver call), operator, annotation (range on the host), gpu_annotation (the same range on a stream), frame (call of a Python function or module), off_cpu (the thread was on no CPU) or other.

"""Looks the categories up in the vocabulary of each rank's dialect."""

import duckdb
import pyarrow as pa

from traceql.readers.dialects.registry import categories
from traceql.sql.definition import declared_schema

_CATEGORIES = """
    SELECT DISTINCT slice.rank, trace.dialect, slice.cat
    FROM slice
    INNER JOIN trace USING (rank)
    WHERE slice.cat IS NOT NULL
    ORDER BY ALL
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = [
        {"rank": rank, "cat": cat, "kind": categories(dialect).get(cat.lower(), "other")}
        for rank, dialect, cat in con.execute(_CATEGORIES).fetchall()
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
