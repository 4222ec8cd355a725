"""The rows behind a report, and how its page shows them: width, columns, phases."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby, takewhile
from types import MappingProxyType

from traceql.database.database import Database
from traceql.present.report.sections import RUN_SECTIONS, Figure, Section
from traceql.result import Result
from traceql.result.text_table.columns import display_columns
from traceql.sql.query import Chart, Query
from traceql.util.units import display_unit

_WIDE_CHARTS = {"deviation", "flame", "heatmap", "timeline", "waterfall"}
_CHARTS_OF_ROWS = {"bar", "parts", "range", "stacked", "timeline", "waterfall"}
# Charts that show the steps of each phase separately.
_CHARTS_OF_STEPS = {"heatmap", "point", "roofline", "timeline", "waterfall"}
_HALF, _LETTER, _PADDING = 520, 6.6, 18  # pixels: of a figure, and of a cell
_SAMPLE_ROWS = 40  # from which the width of a table is estimated
_PHASES = """
    SELECT phase
    FROM step
    WHERE gpu_dur > 0 AND phase IN ('prefill', 'decode', 'mixed')
    GROUP BY phase
    ORDER BY COUNT(*) DESC, phase
"""


@dataclass(frozen=True)
class Answer:
    """A figure of the report, with its query and its rows."""

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
    def chart(self) -> Chart | None:
        """The chart that the page shows."""
        return self.query.head.chart if self.figure.drawn else None

    @property
    def title(self) -> str:
        chart = self.query.head.chart
        return self.figure.title or (chart.title if chart else "") or self.query.head.summary

    def command(self, database: str, more: Mapping[str, str] = MappingProxyType({})) -> str:
        """The command that prints the same rows in a terminal.

        Args:
            database: quoted for a shell, with options of an excerpt.
            more: parameters besides those of the figure.
        """
        parameters = {**self.figure.parameters, **more}
        given = "".join(f" --{name} {value}" for name, value in parameters.items())
        return f"traceql run {self.query.name} {database}{given}"


def anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def answers(database: Database) -> Iterator[Answer]:
    """The figures of the report that have rows, in order. Queries run as the caller iterates."""
    named = {figure.query for section in RUN_SECTIONS for figure in section.figures}

    def queries_of(figure: Figure) -> list[str]:
        """The query of that name, or those that match a pattern and that no figure names."""
        if figure.query in database.queries:
            return [figure.query]
        unnamed = [name for name in database.queries if name not in named]
        return [name for name in unnamed if fnmatchcase(name, figure.query)]

    figures = (figure for section in RUN_SECTIONS for figure in section.figures)
    database.make(name for figure in figures for name in queries_of(figure))
    for section in RUN_SECTIONS:
        if section.needs and not len(database.select(section.needs)):
            continue
        title, question = (
            database.terminology(section.title),
            database.terminology(section.question),
        )
        adapted = replace(section, title=title, question=question)
        for figure in section.figures:
            for name in queries_of(figure):
                result = database.query(name, **figure.parameters)
                if len(result) or figure.empty:
                    yield Answer(adapted, figure, database.queries[name], result)


def wide_figures(answers: Sequence[Answer]) -> set[str]:
    """The names of the figures that take the whole width.

    Figures of half the width stand side by side, so the last of an odd number is wide as well.
    """

    def takes_all(answer: Answer) -> bool:
        if answer.chart and answer.chart.kind in _WIDE_CHARTS:
            return True
        is_open = answer.chart is None or answer.figure.unfolded
        return is_open and _width(answer.result) > _HALF

    wide = set()
    for is_wide, group in groupby(answers, takes_all):
        names = [answer.name for answer in group]
        wide.update(names if is_wide else names[len(names) // 2 * 2 :])
    return wide


def _width(result: Result) -> float:
    """The width of its table, pixels, estimated from its first rows."""
    columns = display_columns(result.head(_SAMPLE_ROWS).arrow())
    letters = (
        max([*map(len, column.cells), *map(len, column.title.replace("_", " ").split())])
        for column in columns
    )
    return sum(_LETTER * count + _PADDING for count in letters)


def ordered_columns(answer: Answer) -> list[str]:
    """The columns of the table: what a row is, then what the chart shows, then the others."""
    columns, chart = answer.result.columns, answer.chart
    if not chart or chart.kind not in _CHARTS_OF_ROWS:
        return columns
    rows, quantities = _channels(chart, "y", "color", "group"), _channels(chart, "x", "width")
    keys = takewhile(lambda name: display_unit(name, 0) is None, columns)
    order = dict.fromkeys([*rows, *keys, *quantities, *columns])
    return [name for name in order if name in columns]


def _channels(chart: Chart, *names: str) -> list[str]:
    """The columns of these channels."""
    return [column for name in names for column in chart.channels.get(name, "").split(",")]


def selectable_phases(database: Database) -> list[str]:
    """The phases that a reader can select; none if the run has only one."""
    rows = database.select(_PHASES).rows()
    return [row["phase"] for row in rows] if len(rows) > 1 else []


def has_phases(answer: Answer) -> bool:
    """Whether the query sums up all steps, and can sum up those of one phase."""
    chart = answer.query.head.chart
    if not _phase_parameters(answer) or (chart and chart.kind in _CHARTS_OF_STEPS):
        return False
    rows = answer.result
    names = _channels(chart, *chart.channels) if chart else []
    if "phase" not in names or "phase" not in rows.columns:
        return True
    # The chart shows each phase separately, unless it lacks rows of some.
    return bool(rows.reached_limit or rows.arrow()["phase"].null_count)


def by_phase(
    database: Database, answer: Answer, phases: list[str]
) -> Iterator[tuple[str, dict[str, str], Result]]:
    """Each phase that has rows, the parameters that select it, and its rows."""
    for phase in phases if has_phases(answer) else ():
        is_parameter = "phase" in _phase_parameters(answer)
        selection = {"phase": phase} if is_parameter else {"by": "phase"}
        result = database.query(answer.query.name, **answer.figure.parameters | selection)
        if len(own := result if is_parameter else result.where("phase", phase)):
            yield phase, selection, own


def _phase_parameters(answer: Answer) -> set[str]:
    """The parameters by which the query separates phases."""
    return {
        parameter.name
        for parameter in answer.query.head.parameters
        if parameter.name not in answer.figure.parameters
        and (parameter.name == "phase" or (parameter.name == "by" and "phase" in parameter.values))
    }
