"""Compares two groups of runs: what changed, whether it is real, and whether it adds up."""

from traceql.runs.compare.comparison import Comparison, diff, diff_queries

__all__ = ["Comparison", "diff", "diff_queries"]
