"""Exports one or two databases as an enriched trace, which is a native Perfetto trace."""

from traceql.present.pftrace.export import export_perfetto, export_runs
from traceql.present.pftrace.run_view import RunView

__all__ = ["RunView", "export_perfetto", "export_runs"]
