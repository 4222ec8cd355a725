"""Panels: charts of one kind side by side and below each other, as many in a row as have room."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import altair as alt
import pandas as pd

from traceql.result.chart.data import chart_of
from traceql.result.chart.theme import CONFIG, INK

_LEAST = 210  # pixels of a panel, below which there is one less in a row
_MOST = 3  # in a row
_BETWEEN, _BELOW = 22, 20  # pixels between panels
_ABOVE = 10  # pixels from a panel to its name
_EDGE = 2 * CONFIG["padding"] + 12  # pixels; half of the last label on an axis stands out


@dataclass(frozen=True)
class Row:
    """How panels stand in a row.

    Attributes:
        panels: how many.
        width: of the plot of a panel, pixels.
    """

    panels: int
    width: int


def row_of(count: int, width: int, axis: int, *, one_axis: bool) -> Row:
    """The row that suits a number of panels.

    Args:
        width: of the whole picture, pixels.
        axis: width of a vertical axis with its title, pixels.
        one_axis: whether panels share the axis of the first one in their row.
    """
    for most in range(min(count, _MOST), 1, -1):
        panels = ceil(count / ceil(count / most))  # four are two rows of two
        axes = axis if one_axis else panels * axis
        each = (width - _EDGE - axes - (panels - 1) * _BETWEEN) // panels
        if each >= _LEAST:
            return Row(panels, each)
    return Row(1, width - _EDGE - axis)


def named(name: str) -> Iterator[alt.Chart]:
    """The name of a panel above it, at the same height in each; nothing if it has none."""
    if name:
        text = chart_of(pd.DataFrame({"name": [name]})).mark_text(
            align="left", baseline="bottom", color=INK, fontSize=12, fontWeight=600
        )
        yield text.encode(
            x=alt.value(0), y=alt.value(-_ABOVE), text=alt.Text(field="name", type="nominal")
        )


def in_rows(charts: Sequence[alt.LayerChart], row: Row) -> alt.VConcatChart:
    """The panels in rows, with one legend."""
    rows = [
        alt.hconcat(*charts[first : first + row.panels], spacing=_BETWEEN)
        for first in range(0, len(charts), row.panels)
    ]
    drawn: alt.VConcatChart = alt.vconcat(*rows, spacing=_BELOW)
    return drawn
