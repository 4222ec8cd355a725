"""Whether the trace processor reports that it lost data or met errors."""

from traceql.engine import TraceProcessor, arrow_table
from traceql.errors import LossyLoad

_ERRORS = """
    SELECT name, value FROM stats
    WHERE severity IN ('error', 'data_loss') AND value > 0
"""
# A flow that finds no slice is not a lost slice; the ledger compares flows on their own.
_FLOW_STATS = "flow_"


def raise_on_error_stats(tp: TraceProcessor) -> None:
    """Raises LossyLoad if any statistic counts an error or lost data."""
    stats = arrow_table(tp, _ERRORS).to_pylist()
    fatal = [s for s in stats if not s["name"].startswith(_FLOW_STATS)]
    if fatal:
        listed = ", ".join(f"{s['name']}={s['value']}" for s in fatal)
        raise LossyLoad(f"the trace processor lost data ({listed}); please report this trace")
