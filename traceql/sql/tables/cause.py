# One row per cause that the diagnosis can find, in the order in which causes are given lost time.
# @schema reference
# @scope  rank
# @column cause     VARCHAR    Id of the cause.
# @column title     VARCHAR    Its name in words.
# @column summary   VARCHAR    What it is.
# @column subject   VARCHAR    What it is about: recording, host, scheduling, communication, kernels, memory or hardware.
# @column after     VARCHAR[]  More specific causes, which get the time that both explain.
# @column unless    VARCHAR[]  Causes that rule it out when they are confirmed, because they explain all that it shows.
# @column query     VARCHAR    Query that shows the details.
# @column record    VARCHAR    What to record to decide it.
# @column source    VARCHAR    Where its evidence and thresholds come from.

"""Reads the heads of the files in traceql/analysis/diagnosis/causes."""

import duckdb
import pyarrow as pa

from traceql.analysis.diagnosis.catalog import Cause, causes
from traceql.errors import QueryInvalid, QueryNotFound
from traceql.sql.definition import declared_schema
from traceql.sql.query import Query, bound, query_named, shipped_queries


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    queries = shipped_queries()  # a load does not depend on the user's own
    listed = []
    for one in causes().values():
        _require_query(one, queries)
        listed.append(
            {
                "cause": one.name,
                "title": one.title,
                "summary": one.summary,
                "subject": one.group,
                "after": list(one.after),
                "unless": list(one.unless),
                "query": one.query,
                "record": one.record,
                "source": one.source,
            }
        )
    return pa.Table.from_pylist(listed, declared_schema(__file__))


def _require_query(cause: Cause, queries: dict[str, Query]) -> None:
    """Raises QueryInvalid if the query that shows the details of a cause cannot be run."""
    try:
        bound(query_named(cause.query, queries), {name: None for name, _ in cause.parameters})
    except (QueryInvalid, QueryNotFound) as error:
        raise QueryInvalid(f"{cause.path}: wrong @query: {error}") from None
