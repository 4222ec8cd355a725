"""The sections of a page about queries by name, such as those of a comparison."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import groupby

from traceql.present.report.answers import Answer
from traceql.present.report.charts import PageCharts
from traceql.present.report.figure import PendingFigure, View, figure_html
from traceql.present.report.html_page import definitions_html, section_html, section_links
from traceql.present.report.sections import Figure, Section
from traceql.result import Result
from traceql.sql.query import Query


@dataclass(frozen=True)
class Subject:
    """The subject of a page.

    Attributes:
        query: returns the rows of a query by its name and parameters.
        queries: its queries by name.
        variable: its name in the Python that returns the same rows.
        half: queries whose figures take half of the width, in pairs.
        constant: columns with one value throughout, which tables omit.
    """

    query: Callable[..., Result]
    queries: Mapping[str, Query]
    variable: str
    half: Collection[str] = ()
    constant: Collection[str] = ()


@dataclass(frozen=True)
class Body:
    """The content of a page.

    Attributes:
        links: the titles of its sections, by the identifiers of their elements.
        html: the sections, and the definitions of their queries.
    """

    links: Mapping[str, str]
    html: str


def page_body(
    subject: Subject, sections: Iterable[Section], charts: PageCharts, tops: Mapping[str, str]
) -> Body:
    """The sections that have rows.

    Args:
        tops: HTML at the top of sections, by their names; these sections are always shown.
    """
    begun = [
        (section, parts)
        for section in sections
        if (parts := list(_parts(subject, section, charts))) or section.name in tops
    ]
    html = "".join(
        section_html(section, [tops.get(section.name, ""), *(part() for _, part in parts)])
        for section, parts in begun
    )
    used = {query.name: query for _, parts in begun for query, _ in parts}
    links = section_links(section for section, _ in begun)
    return Body(links, html + definitions_html(used.values()))


def _parts(
    subject: Subject, section: Section, charts: PageCharts
) -> Iterator[tuple[Query, Callable[[], str]]]:
    """The query of each figure, and the function that waits for its HTML."""
    found = [(one, subject.query(one.query, **one.parameters)) for one in section.figures]
    wide = _wide_figures([one for one, result in found if len(result)], subject.half)
    for one, result in found:
        query = subject.queries[one.query]
        if len(result):
            keys = [name for name in query.head.keys if name not in subject.constant]
            shown = [name for name in keys if name in result.columns]
            answer = Answer(section, one, query, result.select(shown))
            is_wide = one in wide
            pictures = charts.begin(answer, result, name=answer.anchor, wide=is_wide)
            # The Python that returns the same rows.
            given = "".join(f", {name}={value!r}" for name, value in one.parameters.items())
            call = f"{subject.variable}.query({one.query!r}{given})"
            view = View("", call, answer.result, pictures)
            yield query, partial(figure_html, PendingFigure(answer, is_wide, (view,)))
        elif one.empty:
            yield query, partial('<p class="none">{}</p>'.format, escape(one.empty))


def _wide_figures(figures: Sequence[Figure], half: Collection[str]) -> list[Figure]:
    """The figures that take the whole width: those of half of it stand in pairs."""
    wide = []
    for is_half, group in groupby(figures, lambda one: one.query in half):
        own = list(group)
        wide += own[len(own) // 2 * 2 :] if is_half else own
    return wide
