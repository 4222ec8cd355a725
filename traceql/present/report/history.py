"""A history as one self-contained page: what changed since when, and a chart for each series."""

from contextlib import closing
from functools import partial
from html import escape

import pyarrow as pa

from traceql.errors import TraceqlError
from traceql.present.report.drawing import WIDTHS
from traceql.present.report.picture import inline
from traceql.present.report.shell import html_page
from traceql.result import Result
from traceql.result.chart.drawing import Drawing, Order
from traceql.result.text_table.html import html_table
from traceql.runs.history import History
from traceql.runs.history.folder import SHOWN
from traceql.runs.history.lookback import LEAST_POINTS

_FOOTER = (
    "Each point is the median of its runs. Grey is where a single point is expected by those "
    "before it; a change is marked where several points leave it together."
)
_MEANING = {
    "x": "When the runs were recorded, UTC, or their commit.",
    "runs": "Runs of the point, whose median counts.",
    "median_ns": "Median of the runs of the point; of a run, the weighted medians of its strata.",
    "least_ns": "Least of these runs.",
    "most_ns": "Most of these runs.",
    "expected_ns": "Mean of the points before it, since the last change.",
    "change_pct": "Distance from what was expected.",
    "z": "Distance in standard errors; at a change, of the points that it was found by.",
    "mark": "change, outlier, or unconfirmed: the last point, which a later one must confirm.",
    "shift_pct": "Distance of the new level from what was expected.",
    "commit": "Commit of the folder in which the run was started.",
    "time_from": "What tells the time: run.json, the trace, the baseline or the file.",
}


def history_page(history: History, title: str) -> str:
    """The HTML with styles, pictures and the script that sorts rows inside."""
    with closing(Drawing(for_pages=True)) as drawing:
        figures = "".join(
            _figure(history, number, drawing) for number in range(len(history.titles))
        )
    skipped = "".join(f"<li>{escape(one)}</li>" for one in history.skipped)
    count = len(history.skipped)
    left_out = f"<details><summary>Left out: {count}</summary><ul>{skipped}</ul></details>"
    return html_page(
        f"History of {title}",
        history.span,
        {_anchor(number): name for number, name in enumerate(history.titles)},
        f'<section>{_changes(history)}<div class="figures">{figures}</div>'
        f"{left_out if history.skipped else ''}</section>",
        parts="Series",
        footer=_FOOTER,
    )


def _anchor(series: int) -> str:
    return f"series-{series}"


def _changes(history: History) -> str:
    """What changed, or that nothing did."""
    items = [
        f'<li class="notable"><b>{escape(title)}</b><p>{escape(said)}</p></li>'
        for title, said, has_change in zip(
            history.titles, history.told, history.has_change, strict=True
        )
        if has_change
    ]
    if items:
        return f'<ol class="findings">{"".join(items)}</ol>'
    return f'<p class="none">{_unchanged(history)}</p>'


def _unchanged(history: History) -> str:
    """Too few points are not the same as no change."""
    few, count = sum(history.has_too_few), len(history.titles)
    if not few:
        return "No series has a change."
    needed = f"it takes {LEAST_POINTS} points that agree"
    if few == count:
        return f"No series can be judged: {needed}."
    return f"No change in {count - few} of {count} series; {few} cannot be judged ({needed})."


def _figure(history: History, number: int, drawing: Drawing) -> str:
    rows, title, said = history.of(number), history.titles[number], history.told[number]
    table = html_table(rows.select(list(SHOWN)).arrow(), texts=_MEANING)
    region = f'role="region" aria-label="{escape(title)}"'
    counted = f"{len(rows):,} point{'' if len(rows) == 1 else 's'}"
    return (
        f'<figure id="{_anchor(number)}" data-wide data-chart="history">'
        f'<figcaption><h3>{escape(title)}</h3></figcaption><p class="question">{escape(said)}</p>'
        f'<div class="view">{_pictures(rows, number, title, drawing)}'
        f"<details><summary>{counted}</summary>"
        f'<div class="scroll" tabindex="0" {region}>{table}</div></details></div></figure>'
    )


def _without_note(rows: Result) -> pa.Table:
    """The sentence above the picture says it."""
    table = rows.arrow()
    place = table.column_names.index("note")
    return table.set_column(place, "note", pa.repeat("", len(table)))


def _pictures(rows: Result, number: int, title: str, drawing: Drawing) -> str:
    description = f"Chart: {title}. The table below has the same points."
    found = []
    for size, width in WIDTHS.items():
        adapted = partial(inline, name=f"{_anchor(number)}-{size}", description=description)
        try:
            picture = drawing.draw(
                Order(_without_note(rows), rows.declared_chart, width, adapted=adapted)
            )
        except TraceqlError as error:
            return f'<p class="none">No picture: {escape(str(error))}.</p>'
        found.append(f'<div class="{size}">{picture.decode()}</div>')
    return "".join(found)
