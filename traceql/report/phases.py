"""The figures of a report for one phase of the engine's steps alone."""

from collections.abc import Iterator

from traceql.report.facts import Answer
from traceql.result import Result
from traceql.trace import Trace

_PHASES = "SELECT phase FROM step WHERE gpu_dur > 0 AND phase IN ('prefill', 'decode', 'mixed')"
_ALONG_TIME = {"heatmap", "point", "timeline"}  # charts that show the steps of all phases


def phases_of(trace: Trace) -> list[str]:
    """The phases to choose from; none if the run has only one."""
    rows = trace.sql(f"{_PHASES} GROUP BY phase ORDER BY COUNT(*) DESC, phase").rows()
    return [row["phase"] for row in rows] if len(rows) > 1 else []


def is_of_phases(answer: Answer) -> bool:
    """Whether the query sums up the steps of one phase when it is asked to."""
    chart = answer.query.head.chart
    return bool(_asks(answer)) and not (chart and chart.kind in _ALONG_TIME)


def by_phase(
    trace: Trace, answer: Answer, phases: list[str]
) -> Iterator[tuple[str, dict[str, str], Result]]:
    """Each phase that has rows, the parameters that tell it apart, and its rows."""
    for phase in phases if is_of_phases(answer) else ():
        asks = {"phase": phase} if "phase" in _asks(answer) else {"by": "phase"}
        result = trace.run(answer.query.name, **answer.figure.parameters | asks)
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
