"""The rows behind a report, for all its formats."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType

from traceql.database.database import Database
from traceql.present.report.sections import SECTIONS, Figure, Section
from traceql.result import Result
from traceql.sql.query import Query


@dataclass(frozen=True)
class Answer:
    """A figure of the report, with its query and the rows of that."""

    section: Section
    figure: Figure
    query: Query
    result: Result

    @property
    def name(self) -> str:
        """The query and its parameters: `layers.breakdown-decode`."""
        return "-".join([self.query.name, *map(str, self.figure.parameters.values())])

    @property
    def anchor(self) -> str:
        """The name as an HTML id."""
        return anchor(self.name)

    @property
    def title(self) -> str:
        chart = self.query.head.chart
        return self.figure.title or (chart.title if chart else "") or self.query.head.summary

    def command(self, database: str, asked: Mapping[str, str] = MappingProxyType({})) -> str:
        """The command that prints the same rows in a terminal.

        Args:
            database: as a shell reads it, perhaps with options.
            asked: parameters besides those of the figure.
        """
        parameters = {**self.figure.parameters, **asked}
        given = "".join(f" --{name} {value}" for name, value in parameters.items())
        return f"traceql run {self.query.name} {database}{given}"


def anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def answers(trace: Database) -> Iterator[Answer]:
    """The figures of the report that have rows, in order. Queries run as the caller iterates."""
    named = {figure.query for section in SECTIONS for figure in section.figures}
    said = trace.terminology
    trace.make(
        name
        for section in SECTIONS
        for figure in section.figures
        for name in _queries(figure.query, trace.queries, named)
    )
    for section in SECTIONS:
        if section.needs and not len(trace.select(section.needs)):
            continue
        worded = replace(section, title=said(section.title), question=said(section.question))
        for figure in section.figures:
            for name in _queries(figure.query, trace.queries, named):
                result = trace.query(name, **figure.parameters)
                if len(result) or figure.empty:
                    yield Answer(worded, figure, trace.queries[name], result)


def _queries(pattern: str, known: Mapping[str, Query], named: set[str]) -> list[str]:
    """The query of that name, or those that match a pattern and that no figure names."""
    if pattern in known:
        return [pattern]
    return [name for name in known if fnmatchcase(name, pattern) and name not in named]
