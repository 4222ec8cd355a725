"""Cuts time windows out of a database, into a database of the same tables."""

from traceql.excerpt.choice import Choice, chosen
from traceql.excerpt.cut import cut

__all__ = ["Choice", "chosen", "cut"]
