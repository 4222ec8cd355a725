"""The enriched trace: a database as a native Perfetto trace."""

from traceql.pftrace.export import export_perfetto

__all__ = ["export_perfetto"]
