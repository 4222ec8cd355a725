# One row per rank and event category: which kind of event the category is.
#
# Where the vocabulary of the profiler lacks a category, its events are kernels if the reader recognised
# activities of a device among them, and launch calls if they share a correlation with activities.
# @scope  rank
# @needs  activity, slice, trace
# @column rank  BIGINT   Rank.
# @column cat   VARCHAR  Event category, as in the file and in slice.
# @column kind  VARCHAR  kernel, memcpy, memset, launch (runtime or driver call), operator, annotation (range on the host), gpu_annotation (the same range on a stream), frame (call of a Python function or module), off_cpu (the thread was on no CPU) or other.

"""Looks the categories up in the vocabulary of each rank's dialect."""

import duckdb
import pyarrow as pa

from traceql.readers.dialects.registry import kind_of
from traceql.sql.definition import declared_schema

_CATEGORIES = """
    SELECT DISTINCT slice.rank, trace.dialect, slice.cat
    FROM slice
    INNER JOIN trace USING (rank)
    WHERE slice.cat IS NOT NULL
    ORDER BY ALL
"""
_OF_UNKNOWN = """
    WITH on_device AS (
        SELECT slice.rank, slice.cat, slice.correlation FROM activity INNER JOIN slice USING (id)
    )
    SELECT DISTINCT rank, cat, 'launch' AS kind
    FROM slice
    WHERE
        list_contains(CAST($cats AS VARCHAR[]), cat)
        AND (rank, correlation) IN (SELECT (rank, correlation) FROM on_device WHERE correlation <> 0)
    UNION ALL
    SELECT DISTINCT rank, cat, 'kernel' AS kind
    FROM on_device
    WHERE list_contains(CAST($cats AS VARCHAR[]), cat)
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    kinds = {
        (rank, cat): kind_of(dialect, cat)
        for rank, dialect, cat in con.execute(_CATEGORIES).fetchall()
    }
    if unknown := {cat for (_, cat), kind in kinds.items() if kind is None}:
        found = con.execute(_OF_UNKNOWN, {"cats": sorted(unknown)}).fetchall()
        kinds |= {(rank, cat): kind for rank, cat, kind in found if kinds[rank, cat] is None}
        kinds |= {(rank, cat): kind for rank, cat, kind in found if kind == "kernel"}
    listed = [
        {"rank": rank, "cat": cat, "kind": kind or "other"} for (rank, cat), kind in kinds.items()
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
