# One row per distinct name of a kernel or of a profiled launch: the parts by which two names mean the same kernel.
#
# It is empty as long as no profile of Nsight Compute is loaded.
# @scope  run
# @needs  kernel, profiled_launch
# @empty_unless profiled_launch
# @column name       VARCHAR  Name as in the file.
# @column base       VARCHAR  Name of the function, without namespaces, template arguments and parameters.
# @column arguments  VARCHAR  Template arguments without what demanglers write in different ways; NULL if the name has none.

"""Splits names in Python: their brackets nest, which no regular expression can follow."""

import duckdb
import pyarrow as pa

from traceql.readers.ncu.kernel_names import kernel_name
from traceql.sql.definition import declared_schema

_NAMES = """
    SELECT DISTINCT name
    FROM (
        SELECT name FROM kernel WHERE kind = 'kernel' AND EXISTS (FROM profiled_launch)
        UNION ALL
        SELECT name FROM profiled_launch
    )
    WHERE name IS NOT NULL
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    names = [name for (name,) in con.execute(_NAMES).fetchall()]
    split = [{"name": name, **kernel_name(name)._asdict()} for name in names]
    return pa.Table.from_pylist(split, declared_schema(__file__))
