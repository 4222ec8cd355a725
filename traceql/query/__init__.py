"""Queries: their files, heads and parameters."""

from traceql.query.bind import bound
from traceql.query.catalog import Query, catalog, queries_in, query_named, shipped_queries
from traceql.query.head import LIMIT, Chart, Head, Parameter

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
