"""A lake: many runs as Parquet files in a folder or object store, to query across them."""

from traceql.runs.lake.lake import Lake, open_lake

__all__ = ["Lake", "open_lake"]
