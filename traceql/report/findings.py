"""The top of the page: the numbers that sum up the run, and what costs the most time."""

from html import escape

from traceql.findings.evidence import evidence_command
from traceql.report.facts import Answer
from traceql.units import display_unit


def headlines(answer: Answer, _database: str) -> str:
    """One tile per number."""
    tiles = (
        f"<div><dt>{escape(row['headline'])}</dt><dd>{_number(row['value'], row['unit'])}</dd>"
        f"<dd>{escape(row['note'])}</dd></div>"
        for row in answer.result
    )
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def findings(answer: Answer, database: str) -> str:
    """Each finding as a sentence, with what to try and the command that shows its rows."""
    if not len(answer.result):
        return f'<p class="none">{escape(answer.figure.empty)}</p>'
    items = (
        f'<li class="{escape(row["severity"])}"><b>{escape(row["finding"])}</b>'
        f'<p><span class="severity">{escape(row["severity"])}</span> {escape(row["advice"])}</p>'
        f"<code>{escape(evidence_command(row, database))}</code></li>"
        for row in answer.result
    )
    return f'<ol class="findings">{"".join(items)}</ol>'


def _number(value: float, unit: str) -> str:
    if unit == "ns":
        shown = display_unit("dur", value)
        return f"{value / shown.divisor:,.2f} <small>{shown.symbol}</small>" if shown else ""
    if unit == "percent":
        return f"{value:.1f} <small>%</small>"
    return f"{value:,.0f} <small>{escape(unit)}</small>"
