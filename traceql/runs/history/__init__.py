"""The history of a folder of runs: how their times change, and since when."""

from traceql.runs.history.folder import History, history

__all__ = ["History", "history"]
