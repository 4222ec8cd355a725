"""Where did my milliseconds go? Profiler traces of LLM inference, lossless in DuckDB."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from traceql.errors import TraceqlError
from traceql.util.resources import __version__

if TYPE_CHECKING:
    from traceql.database.loading.load import load
    from traceql.plan.advise import Advice, advise
    from traceql.result import Result
    from traceql.run import Run
    from traceql.run import Run as Trace
    from traceql.run import open_run as open
    from traceql.runs.compare import Comparison, diff
    from traceql.runs.experiment.experiment import Experiment, experiment
    from traceql.runs.gate.decision import Gate, gate
    from traceql.runs.history import History, history
    from traceql.runs.lake import Lake, open_lake

__all__ = [
    "Advice",
    "Comparison",
    "Experiment",
    "Gate",
    "History",
    "Lake",
    "Result",
    "Run",
    "Trace",
    "TraceqlError",
    "__version__",
    "advise",
    "diff",
    "experiment",
    "gate",
    "history",
    "load",
    "open",
    "open_lake",
]
# Imported on first use, so that `traceql --help` does not wait for DuckDB.
_PLACES = {
    "Advice": "traceql.plan.advise:Advice",
    "Comparison": "traceql.runs.compare:Comparison",
    "Experiment": "traceql.runs.experiment.experiment:Experiment",
    "Gate": "traceql.runs.gate.decision:Gate",
    "History": "traceql.runs.history:History",
    "Lake": "traceql.runs.lake:Lake",
    "Result": "traceql.result:Result",
    "Run": "traceql.run:Run",
    "Trace": "traceql.run:Run",  # the earlier name, for one release
    "advise": "traceql.plan.advise:advise",
    "diff": "traceql.runs.compare:diff",
    "experiment": "traceql.runs.experiment.experiment:experiment",
    "gate": "traceql.runs.gate.decision:gate",
    "history": "traceql.runs.history:history",
    "load": "traceql.database.loading.load:load",
    "open": "traceql.run:open_run",
    "open_lake": "traceql.runs.lake:open_lake",
}


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext traceql`: SQL cells in notebooks."""
    from traceql.present.jupyter import register

    register(shell)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'traceql' has no attribute '{name}'")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
