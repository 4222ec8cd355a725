"""Exports a database as an enriched trace, which is a native Perfetto trace."""

from traceql.pftrace.export import export_perfetto

__all__ = ["export_perfetto"]
