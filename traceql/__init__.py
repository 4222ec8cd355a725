"""Where did my milliseconds go? Profiler traces of LLM inference, lossless in DuckDB."""

from typing import TYPE_CHECKING, Any

from traceql.errors import TraceqlError
from traceql.util.version import __version__

if TYPE_CHECKING:
    from traceql.database.loading.load import load
    from traceql.database.trace import Trace
    from traceql.database.trace import open_trace as open
    from traceql.result.result import Result
    from traceql.runs.compare import Comparison, diff
    from traceql.runs.history import History, history
    from traceql.runs.lake import Lake, open_lake

__all__ = [
    "Comparison",
    "History",
    "Lake",
    "Result",
    "Trace",
    "TraceqlError",
    "__version__",
    "diff",
    "history",
    "load",
    "open",
    "open_lake",
]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext traceql`: SQL cells in notebooks."""
    from traceql.present.jupyter.magic import register

    register(shell)


def __getattr__(name: str) -> Any:
    """Imports on first use, so that `traceql --help` does not wait for DuckDB."""
    if name == "load":
        from traceql.database.loading.load import load

        return load
    if name in ("open", "Trace"):
        from traceql.database import trace

        return trace.open_trace if name == "open" else trace.Trace
    if name in ("Comparison", "diff"):
        from traceql.runs import compare

        return getattr(compare, name)
    if name in ("Lake", "open_lake"):
        from traceql.runs import lake

        return getattr(lake, name)
    if name in ("History", "history"):
        from traceql.runs import history as trend

        return getattr(trend, name)
    if name == "Result":
        from traceql.result.result import Result

        return Result
    raise AttributeError(f"module 'traceql' has no attribute '{name}'")
