"""Cuts time windows out of a database, into a database of the same tables."""

from traceql.database.excerpt.cut import cut
from traceql.database.excerpt.windows import ExcerptSelection, parse_selection

__all__ = ["ExcerptSelection", "cut", "parse_selection"]
