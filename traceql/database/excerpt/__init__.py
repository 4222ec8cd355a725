"""Cuts time windows out of a database, into a database of the same tables."""

from traceql.database.excerpt.choice import Choice, chosen
from traceql.database.excerpt.cut import cut

__all__ = ["Choice", "chosen", "cut"]
