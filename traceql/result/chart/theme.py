"""The look of all charts: gray axes, colored data, and fonts that every machine has."""

from typing import Any

from traceql.result.chart.palette import SEQUENCE

INK, QUIET, RULE, PAPER = "#1f2328", "#59636e", "#d8dde3", "#ffffff"
FONT = "Arial, sans-serif"  # a PNG has no text at all if one of the named fonts is missing
HEIGHT, ROW_HEIGHT = 260, 22  # pixels

CONFIG: dict[str, Any] = {
    "aria": False,
    "background": PAPER,
    "font": FONT,
    "padding": 8,
    "title": {
        "anchor": "start",
        "color": INK,
        "fontSize": 15,
        "fontWeight": 600,
        "frame": "bounds",
        "offset": 14,
    },
    "axis": {
        "domainColor": RULE,
        "gridColor": RULE,
        "gridOpacity": 0.7,
        "labelColor": QUIET,
        "labelFontSize": 11,
        "labelOverlap": True,
        "labelPadding": 6,
        "tickColor": RULE,
        "ticks": False,
        "titleColor": QUIET,
        "titleFontSize": 11,
        "titleFontWeight": 400,
        "titlePadding": 8,
    },
    "legend": {
        "labelColor": INK,
        "labelFontSize": 11,
        "orient": "top",
        "symbolSize": 90,
        "titleColor": QUIET,
        "titleFontSize": 11,
        "titleFontWeight": 400,
        "titleOrient": "left",
        "titlePadding": 10,
    },
    "mark": {"color": SEQUENCE[0]},
    "range": {"category": SEQUENCE},
    "view": {"stroke": None},
}
