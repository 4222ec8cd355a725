"""The rows behind a report, whatever form it is written in."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from traceql.query import Query
from traceql.report.sections import SECTIONS, Figure, Section
from traceql.result import Result
from traceql.trace import Trace


@dataclass(frozen=True)
class Answer:
    """A figure with the query that fills it and what that returned."""

    section: Section
    figure: Figure
    query: Query
    result: Result

    @property
    def name(self) -> str:
        """Of the query and what it was given: `layers.breakdown-decode`."""
        return "-".join([self.query.name, *map(str, self.figure.parameters.values())])

    @property
    def anchor(self) -> str:
        """The name as a page refers to it."""
        return anchor(self.name)

    @property
    def title(self) -> str:
        chart = self.query.head.chart
        return self.figure.title or (chart.title if chart else "") or self.query.head.summary

    def command(self, database: str) -> str:
        """What shows the same rows in a terminal."""
        given = "".join(f" --{name} {value}" for name, value in self.figure.parameters.items())
        return f"traceql run {self.query.name} {database}{given}"


def anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def answers(trace: Trace) -> Iterator[Answer]:
    """Every figure of the report that has rows, in order; each query runs when its turn comes."""
    named = {figure.query for section in SECTIONS for figure in section.figures}
    for section in SECTIONS:
        for figure in section.figures:
            for name in _queries(figure.query, trace.queries, named):
                result = trace.run(name, **figure.parameters)
                if len(result) or figure.empty:
                    yield Answer(section, figure, trace.queries[name], result)


def _queries(pattern: str, known: Mapping[str, Query], named: set[str]) -> list[str]:
    """The query of that name, or those that a pattern fits and that no figure names."""
    if pattern in known:
        return [pattern]
    return [name for name in known if fnmatchcase(name, pattern) and name not in named]
