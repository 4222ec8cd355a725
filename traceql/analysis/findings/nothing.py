"""What to say where there are no findings."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceql.database.trace import Trace


def nothing_found(trace: "Trace") -> str:
    """Why there are none."""
    if len(trace.select("FROM trace LIMIT 1")):
        return "no number reaches its threshold (table reference.finding_rule)"
    return (
        "they need a timeline: load a trace of the same program with the profile "
        "(traceql load TRACE PROFILE)"
    )
