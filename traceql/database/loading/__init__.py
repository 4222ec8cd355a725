"""Loads trace files into one DuckDB file."""
