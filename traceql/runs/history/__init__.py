"""The metrics of a folder of runs over time, with detected changes."""

from traceql.runs.history.run_history import History, history

__all__ = ["History", "history"]
