"""Places for the labels of bars: beside them where there is room, otherwise inside."""

from dataclasses import dataclass

import altair as alt
import pandas as pd

from traceql.result.chart.theme import CONFIG, INK, PAPER

LETTER, MARGIN = 5.6, 5  # pixels: of the text at a bar, and between the two


@dataclass(frozen=True)
class Area:
    """What a chart shows: the values at both ends of its axis, and the pixels between them."""

    low: float
    high: float
    pixels: float


def beside(bars: pd.DataFrame, area: Area) -> pd.DataFrame:
    """The bars with a place for each label: where, on which side of that, and in which color.

    It is right of the bar, or left of it, or else in it.

    Args:
        bars: columns start, end and label.
    """
    low, high = bars[["start", "end"]].min(axis=1), bars[["start", "end"]].max(axis=1)
    pixel = (area.high - area.low) / area.pixels
    needed = (bars["label"].str.len() * LETTER + 2 * MARGIN) * pixel
    right, left = area.high - high > needed, low - area.low > needed
    return bars.assign(
        at=high.where(right, low.where(left, high)),
        align=right.map({True: "left", False: "right"}),
        ink=(right | left).map({True: INK, False: PAPER}),
    )


def label_marks(base: alt.Chart) -> alt.Chart:
    """The labels of the bars of a chart, where `beside` has placed them."""
    marks: alt.Chart = base.mark_text(
        align={"expr": "datum.align"},
        dx={"expr": f"datum.align === 'left' ? {MARGIN} : -{MARGIN}"},
        fontSize=CONFIG["axis"]["labelFontSize"],
    ).encode(
        x=alt.X(field="at", type="quantitative"),
        text=alt.Text(field="label", type="nominal"),
        color=alt.Color(field="ink", type="nominal", scale=None),
    )
    return marks


def signed(value: float, decimals: int) -> str:
    """A difference as people write it: +1.20 or \u22121.20; without a sign if it looks like 0."""
    rounded = round(value, decimals)
    return f"{rounded:+,.{decimals}f}".replace("-", "\u2212") if rounded else "0"


def percent(share: float) -> str:
    """A relative difference as people write it, with a decimal where that says something."""
    if share >= 9.995:
        return f"\u00d7{1 + share:,.0f}"
    return signed(100 * share, 0 if abs(share) >= 0.0995 else 1) + "%"
