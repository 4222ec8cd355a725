"""A history as one self-contained page: the changes, and a chart for each series."""

from contextlib import closing
from functools import partial
from html import escape

import pyarrow as pa

from traceql.errors import TraceqlError
from traceql.present.report.charts import WIDTHS, Pictures, inline
from traceql.present.report.html_page import folded, html_page, scrolled
from traceql.result import Result
from traceql.result.chart.drawing import Drawing, Order
from traceql.result.text_table.export import html_table
from traceql.runs.history import History
from traceql.runs.history.lookback import LEAST_POINTS
from traceql.runs.history.run_history import SHOWN

_FOOTER = (
    "Each point is the median of its runs. Grey is the range expected of a single point from the "
    "points before it; a change is marked where several points leave it together."
)
_MEANING = {
    "x": "When the runs were recorded, UTC, or their commit.",
    "runs": "Runs of the point, whose median counts.",
    "median_ns": "Median of the runs of the point; of a run, the weighted medians of its strata.",
    "least_ns": "Minimum of these runs.",
    "most_ns": "Maximum of these runs.",
    "expected_ns": "Mean of the points before it, since the last change.",
    "change_pct": "Distance from the expected value.",
    "z": "Distance in standard errors; at a change, that of the points that show it.",
    "mark": "change, outlier, or unconfirmed: the last point, which a later one must confirm.",
    "shift_pct": "Distance of the new level from the expected value.",
    "commit": "Commit of the folder in which the run was started.",
    "time_from": "Source of the time: run.json, the trace, the baseline or the file.",
}


def history_page(history: History, title: str) -> str:
    """The HTML with styles, pictures and the script that sorts rows inside."""
    with closing(Drawing(for_pages=True)) as drawing:
        figures = "".join(
            _figure(history, number, drawing) for number in range(len(history.titles))
        )
    skipped = "".join(f"<li>{escape(one)}</li>" for one in history.skipped)
    if skipped:
        skipped = folded(f"<ul>{skipped}</ul>", f"Skipped: {len(history.skipped)}")
    return html_page(
        f"History of {title}",
        history.span,
        {f"series-{number}": name for number, name in enumerate(history.titles)},
        f'<section>{_changes(history)}<div class="figures">{figures}</div>{skipped}</section>',
        parts="Series",
        footer=_FOOTER,
    )


def _changes(history: History) -> str:
    """The changes, or why there are none: too few points are not the same as no change."""
    items = [
        f'<li class="notable"><b>{escape(title)}</b><p>{escape(text)}</p></li>'
        for title, text, has_change in zip(
            history.titles, history.descriptions, history.has_change, strict=True
        )
        if has_change
    ]
    if items:
        return f'<ol class="findings">{"".join(items)}</ol>'
    few, count = sum(history.has_too_few), len(history.titles)
    needed = f"it takes {LEAST_POINTS} points that agree"
    unchanged = "No series has a change."
    if few == count:
        unchanged = f"No series has enough points: {needed}."
    elif few:
        unchanged = f"No change in {count - few} of {count} series; {few} lack points ({needed})."
    return f'<p class="none">{unchanged}</p>'


def _figure(history: History, number: int, drawing: Drawing) -> str:
    rows, title, text = history.of(number), history.titles[number], history.descriptions[number]
    table = scrolled(html_table(rows.select(list(SHOWN)).arrow(), texts=_MEANING), title)
    points = f"{len(rows):,} point{'' if len(rows) == 1 else 's'}"
    return (
        f'<figure id="series-{number}" data-wide data-chart="history">'
        f'<figcaption><h3>{escape(title)}</h3></figcaption><p class="question">{escape(text)}</p>'
        f'<div class="view">{_pictures(rows, number, title, drawing).html}'
        f"{folded(table, points)}</div></figure>"
    )


def _pictures(rows: Result, number: int, title: str, drawing: Drawing) -> Pictures:
    description = f"Chart: {title}. The table below has the same points."
    table = rows.arrow()
    place = table.column_names.index("note")  # a sentence, which is above the picture
    table = table.set_column(place, "note", pa.repeat("", len(table)))
    drawn = {}
    for size, width in WIDTHS.items():
        adapted = partial(inline, name=f"series-{number}-{size}", description=description)
        try:
            picture = drawing.draw(Order(table, rows.declared_chart, width, adapted=adapted))
        except TraceqlError as error:
            return Pictures(missing=str(error))
        drawn[size] = picture.decode()
    return Pictures(drawn)
