"""A lake: many recordings as Parquet files in one folder, which SQL can ask together."""

from traceql.runs.lake.lake import Lake, open_lake

__all__ = ["Lake", "open_lake"]
