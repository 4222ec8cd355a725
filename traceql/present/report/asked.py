"""The sections of a page about something that answers queries by name, such as a comparison."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import groupby

from traceql.present.report.drawing import PageDrawing
from traceql.present.report.facts import Answer
from traceql.present.report.figure import Drawn, View, figure
from traceql.present.report.sections import Figure, Section
from traceql.present.report.shell import definitions, section_html, section_links
from traceql.result import Result
from traceql.sql.query import Query


@dataclass(frozen=True)
class Subject:
    """What a page is about.

    Attributes:
        query: gives the rows of a query by its name and parameters.
        queries: those that it answers, by name.
        variable: what it is called in the Python that gives the same rows.
        half: queries whose figures take half of the width, in pairs.
        same: columns with one value throughout, which tables do not need.
    """

    query: Callable[..., Result]
    queries: Mapping[str, Query]
    variable: str
    half: Collection[str] = ()
    same: Collection[str] = ()


@dataclass(frozen=True)
class _Begun:
    """A part of a section whose charts are being drawn.

    Attributes:
        html: waits for them.
    """

    query: Query
    html: Callable[[], str]


@dataclass(frozen=True)
class Body:
    """What a page consists of.

    Attributes:
        links: the titles of its sections, by the identifiers of their elements.
        html: the sections, and the definitions of what they show.
    """

    links: Mapping[str, str]
    html: str


def page_body(
    subject: Subject,
    sections: Iterable[Section],
    drawing: PageDrawing,
    tops: Mapping[str, str],
) -> Body:
    """The sections that have anything to show.

    Args:
        tops: HTML at the top of sections, by their names; these are shown in any case.
    """
    begun = [
        (section, parts)
        for section in sections
        if (parts := list(_parts(subject, section, drawing))) or section.name in tops
    ]
    html = "".join(
        section_html(section, [tops.get(section.name, ""), *(part.html() for part in parts)])
        for section, parts in begun
    )
    used = {part.query.name: part.query for _, parts in begun for part in parts}
    return Body(section_links(section for section, _ in begun), html + definitions(used.values()))


def _parts(subject: Subject, section: Section, drawing: PageDrawing) -> Iterator[_Begun]:
    asked = [(one, subject.query(one.query, **one.parameters)) for one in section.figures]
    wide = _wide_ones([one for one, result in asked if len(result)], subject.half)
    for one, result in asked:
        query = subject.queries[one.query]
        if len(result):
            keys = [name for name in query.head.keys if name not in subject.same]
            shown = [name for name in keys if name in result.columns]
            answer = Answer(section, one, query, result.select(shown))
            is_wide = one in wide
            pictures = drawing.ask(answer, result, name=answer.anchor, wide=is_wide)
            view = View("", _command(one, subject.variable), answer.result, pictures)
            yield _Begun(query, partial(figure, Drawn(answer, is_wide, (view,))))
        elif one.empty:
            yield _Begun(query, partial(_nothing, one))


def _wide_ones(figures: Sequence[Figure], half: Collection[str]) -> list[Figure]:
    """Those that take the whole width: figures of half of it stand in pairs."""
    wide = []
    for is_half, group in groupby(figures, lambda one: one.query in half):
        own = list(group)
        wide += own[len(own) // 2 * 2 :] if is_half else own
    return wide


def _nothing(one: Figure) -> str:
    return f'<p class="none">{escape(one.empty)}</p>'


def _command(one: Figure, variable: str) -> str:
    """What gives the same rows in Python."""
    given = "".join(f", {name}={value!r}" for name, value in one.parameters.items())
    return f"{variable}.query({one.query!r}{given})"
