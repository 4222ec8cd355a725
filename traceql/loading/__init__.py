"""Trace files into one DuckDB file."""
