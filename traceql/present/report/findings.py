"""The top of the page: the numbers that sum up the run, and what costs the most time."""

from collections.abc import Collection
from html import escape
from typing import Any

from traceql.analysis.findings.catalog import evidence_command, saving
from traceql.present.report.facts import Answer
from traceql.util.units import display_unit


def headlines(answer: Answer) -> str:
    """One tile per number."""
    tiles = (
        f"<div><dt>{escape(row['headline'])}</dt><dd>{_number(row['value'], row['unit'])}</dd>"
        f"<dd>{escape(row['note'])}</dd></div>"
        for row in answer.result
    )
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def findings(answer: Answer, database: str, figures: dict[str, Answer]) -> str:
    """Each finding as a sentence, with what to try, and where it shows on the page and elsewhere.

    Args:
        database: as a shell reads it, perhaps with options.
        figures: for each query of the page its first figure.
    """
    items = (
        f'<li class="{escape(row["severity"])}"><b>{escape(row["finding"])}</b>'
        f'<p><span class="severity">{escape(row["severity"])}</span> {escape(row["advice"])}</p>'
        f"{_places(row, database, figures)}</li>"
        for row in answer.result
    )
    return f'<ol class="findings">{"".join(items)}</ol>'


def no_findings(answer: Answer, reason: str) -> str:
    """What stands in the place of findings where there are none."""
    return f'<p class="none">{escape(f"{answer.figure.empty} {reason}.")}</p>'


def _places(row: dict[str, Any], database: str, figures: dict[str, Answer]) -> str:
    """What it would save; the figure that shows it, and the commands for its rows and Perfetto."""
    places = [("rows", f"<code>{escape(evidence_command(row, database))}</code>")]
    if row["ts"] is not None:
        command = f"traceql ui {database} --finding {row['rank_order']}"
        places.append(("trace", f"<code>{escape(command)}</code>"))
    if shown := figures.get(row["query"]):
        title = shown.title
        link = f'<a href="#{shown.anchor}"{_chosen(row["parameters"])}>{escape(title)}</a>'
        places.insert(0, ("figure", link))
    if row["saving_ns"] is not None:
        places.insert(0, ("saves", escape(saving(row))))
    return f'<dl class="places">{"".join(f"<dt>{a}</dt><dd>{b}</dd>" for a, b in places)}</dl>'


def _chosen(parameters: dict[str, str]) -> str:
    """What a click on the link chooses in the filters of the page."""
    names: Collection[str] = ("phase", "rank")
    return "".join(
        f' data-{name}="{escape(str(parameters[name]))}"' for name in names if name in parameters
    )


def _number(value: float, unit: str) -> str:
    if unit == "ns":
        shown = display_unit("dur", value)
        return f"{value / shown.divisor:,.2f} <small>{shown.symbol}</small>" if shown else ""
    if unit == "percent":
        return f"{value:.1f} <small>%</small>"
    return f"{value:,.0f} <small>{escape(unit)}</small>"
