"""Queries: their files, heads and parameters."""

from traceql.sql.query.bind import bound
from traceql.sql.query.catalog import Query, catalog, queries_in, query_named, shipped_queries
from traceql.sql.query.head import LIMIT, Chart, Head, Parameter

__all__ = [
    "LIMIT",
    "Chart",
    "Head",
    "Parameter",
    "Query",
    "bound",
    "catalog",
    "queries_in",
    "query_named",
    "shipped_queries",
]
