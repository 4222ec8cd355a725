"""Canned queries: found, described, bound and charted."""

from traceql.query.bind import bound
from traceql.query.catalog import Query, catalog, query_named
from traceql.query.head import Chart, Column, Head, Parameter

__all__ = ["Chart", "Column", "Head", "Parameter", "Query", "bound", "catalog", "query_named"]
