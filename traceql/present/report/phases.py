"""The figures of a report for one phase of the engine's steps alone."""

from collections.abc import Iterator

from traceql.database.database import Database
from traceql.present.report.facts import Answer
from traceql.result import Result
from traceql.sql.query import Chart

_PHASES = "SELECT phase FROM step WHERE gpu_dur > 0 AND phase IN ('prefill', 'decode', 'mixed')"
_PHASE = "phase"
# Charts that show the steps of all phases, each for itself.
_OF_ALL_PHASES = {"heatmap", "point", "roofline", "timeline", "waterfall"}


def phases_of(trace: Database) -> list[str]:
    """The phases to choose from; none if the run has only one."""
    rows = trace.select(f"{_PHASES} GROUP BY phase ORDER BY COUNT(*) DESC, phase").rows()
    return [row["phase"] for row in rows] if len(rows) > 1 else []


def is_of_phases(answer: Answer) -> bool:
    """Whether the query sums up the steps of one phase when it is asked to."""
    chart = answer.query.head.chart
    is_of_all = chart and (chart.kind in _OF_ALL_PHASES or _tells_phases(answer, chart))
    return bool(_asks(answer)) and not is_of_all


def _tells_phases(answer: Answer, chart: Chart) -> bool:
    """Whether the chart shows each phase for itself, and has the rows of all of them."""
    shown = {column for columns in chart.channels.values() for column in columns.split(",")}
    rows = answer.result
    is_there = _PHASE in shown and _PHASE in rows.columns
    return is_there and not rows.reached_limit and not rows.arrow()[_PHASE].null_count


def by_phase(
    trace: Database, answer: Answer, phases: list[str]
) -> Iterator[tuple[str, dict[str, str], Result]]:
    """Each phase that has rows, the parameters that tell it apart, and its rows."""
    for phase in phases if is_of_phases(answer) else ():
        asks = {"phase": phase} if "phase" in _asks(answer) else {"by": "phase"}
        result = trace.query(answer.query.name, **answer.figure.parameters | asks)
        if len(own := result if "phase" in asks else result.where("phase", phase)):
            yield phase, asks, own


def _asks(answer: Answer) -> set[str]:
    """The parameters that make the query tell phases apart."""
    return {
        parameter.name
        for parameter in answer.query.head.parameters
        if parameter.name not in answer.figure.parameters
        and (parameter.name == "phase" or (parameter.name == "by" and "phase" in parameter.values))
    }
