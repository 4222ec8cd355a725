"""Curves: what was measured at several loads or sizes, with intervals, and a line through it.

The line is a fitted curve if there is one, and else joins the points. Panels have the same axes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa

from traceql.result.chart.encodings import (
    axis_title,
    chart_of,
    coloured,
    hover,
    in_display_units,
    layered,
)
from traceql.result.chart.plane import NUMBER, MeasuredAxis, in_rows, measured_axis, named, row_of
from traceql.result.chart.theme import CONFIG, PAPER, QUIET, in_order

# The columns of one unit, and their channels.
_CHANNELS = {"value": "y", "low": "low", "high": "high", "fit": "fit", "second": "second"}
QUANTITIES = tuple(_CHANNELS)
_APART = 3.0  # pixels between the points of two series at one place, at most
_MOST_APART = 0.5  # of the distance between two places, all series together
_HEIGHT = 220  # pixels of a panel
_AXIS = 58  # pixels of the vertical axis with its title
_TITLE = 22  # pixels of that title
_DOT = 30  # square pixels
_CAP = 7  # pixels: length of the ends of an interval
_COVERED = 4.5  # pixels: an end that is closer to its dot would look like a part of that
_LEAST_SPARE, _SPARE = 1.15, 0.06  # at the ends of the horizontal axis: a factor, and a power
_SAMPLES = 40  # of a fitted curve
_DEGREE = 2  # of a fitted curve, as a polynomial of what is across: no part of it grows faster
_IDEAL = 100.0  # percent


@dataclass(frozen=True)
class Points:
    """What is drawn.

    Attributes:
        rows: columns x, QUANTITIES, series and panel; NaN for what there is not.
        x_title: of what is across.
        y_title: of the quantities.
        series: the names of the series in their order; one without a name if there is only one.
        series_title: what they are; empty if their names say it.
        is_share: whether the quantities are percentages.
    """

    rows: pd.DataFrame
    x_title: str
    y_title: str
    series: Sequence[str]
    series_title: str
    is_share: bool


def points_of(table: pa.Table, channels: Mapping[str, str]) -> Points:
    """The points of a result.

    If all are at one place, and their series are numbers, the numbers are what is across.
    """
    columns = {name: channels.get(channel) for name, channel in _CHANNELS.items()}
    given, (y_title,) = in_display_units(table, [one for one in columns.values() if one])
    x, series = _chosen(given, channels["x"]), _chosen(given, channels.get("color", ""))
    assert x  # or there would be nothing to draw
    given = given.dropna(subset=[x, channels["y"], *([series] if series else [])])
    x_title = axis_title(x)
    is_ordered = bool(series and pd.api.types.is_numeric_dtype(given[series]))
    if series and is_ordered and given[x].nunique() == 1 and given[series].nunique() > 1:
        x_title = f"{axis_title(series)}, {x_title}: {_plain(given[x].iloc[0])}"
        x, series = series, None
    keys = list(given[series].unique()) if series else [""]
    rows = pd.DataFrame({"x": given[x].astype("float64")})
    for name, column in columns.items():
        rows[name] = given[column] if column else np.nan
    rows["series"] = given[series].map(_plain) if series else ""
    rows["panel"] = given[channels["panel"]].fillna("") if "panel" in channels else ""
    if "name" in channels:
        # What is measured: "TPOT (ms)", "efficiency of TPOT (%)".
        name = str(given[channels["name"]].iloc[0])
        words = name.upper() if len(name) <= len("tpot") else name.replace("_", " ")
        what, bracket, unit = y_title.partition(" (")
        y_title = f"{what} of {words} (%)" if unit == "%)" else words + bracket + unit
    if rows["second"].notna().any():
        # Which points are what: ": ● all, ○ good" for requests per second and good ones.
        second = axis_title(channels["second"]).removesuffix(y_title).strip()
        y_title += f": \u25cf all, \u25cb {second}"
    return Points(
        rows=rows,
        x_title=x_title,
        y_title=y_title,
        series=[_plain(key) for key in (sorted(keys) if is_ordered else keys)],
        series_title=axis_title(series) if series and is_ordered else "",
        is_share=channels["y"].endswith("_pct"),
    )


def places_across(points: Points, width: int) -> pd.Series:
    """Where the points are drawn: those of several series beside each other, not on each other."""
    logs, count = np.log2(np.sort(points.rows["x"].unique())), len(points.series)
    span = float(logs[-1] - logs[0]) or 2.0
    gap = float(np.diff(logs).min()) if len(logs) > 1 else span / 2
    step = min(_APART * span / width, _MOST_APART * gap / count)
    number = points.rows["series"].map({name: n for n, name in enumerate(points.series)})
    places: pd.Series = points.rows["x"] * 2 ** ((number - (count - 1) / 2) * step)
    return places


def _chosen(data: pd.DataFrame, columns: str) -> str | None:
    """Of several columns the one with the most values, then with the most distinct ones."""
    names = [one for one in columns.split(",") if one and data[one].notna().any()]
    most = [(int(data[one].notna().sum()), int(data[one].nunique())) for one in names]
    return names[most.index(max(most))] if names else None


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"


@dataclass(frozen=True)
class _Plane:
    """The axes of a panel, and the colors of its marks."""

    x: alt.X
    up: MeasuredAxis
    colours: dict[str, Any]
    is_share: bool
    has_labels: bool  # of the vertical axis

    @property
    def plain(self) -> dict[str, Any]:
        """The color of marks where there is one series."""
        return {} if self.colours else {"color": CONFIG["mark"]["color"]}

    def y(self, field: str) -> alt.Y:
        extent = _AXIS - _TITLE if self.has_labels else 0
        look = {"labels": self.has_labels, "minExtent": extent, "maxExtent": extent}
        encoding = self.up.encoding(field, domain=False, **look)
        return alt.Y(**encoding | ({} if self.has_labels else {"title": None}))


def curve(table: pa.Table, channels: dict[str, str], width: int) -> alt.VConcatChart:
    """The chart.

    Its channels low and high are the ends of the interval of y, `fit` is the value on a curve,
    `second` another quantity of the same unit, and `name` a column that says what is measured. If
    there are several columns for x or color, the one with the most values counts.
    """
    points = points_of(table, channels)
    names = list(dict.fromkeys(points.rows["panel"]))
    row = row_of(len(names), width, _AXIS, one_axis=True)
    ideal = _IDEAL if points.is_share else 0.0
    quantities = points.rows[list(QUANTITIES)]
    up = measured_axis(quantities, points.y_title, _HEIGHT, least_high=ideal)
    rows = points.rows.assign(across=places_across(points, row.width))
    for end in ("low", "high"):
        rows[f"{end}_stands_out"] = [
            abs(up.pixels(value) - up.pixels(ends)) > _COVERED
            for value, ends in zip(rows["value"], rows[end], strict=True)
        ]
    x, colours = _across(rows, points), _colours(points, width)
    panels = []
    for place, name in enumerate(names):
        plane = _Plane(x, up, colours, points.is_share, has_labels=not place % row.panels)
        layers = [*named(name), *_layers(rows[rows["panel"] == name], plane)]
        panels.append(layered(layers, width=row.width, height=_HEIGHT))
    return in_rows(panels, row)


def _across(rows: pd.DataFrame, points: Points) -> alt.X:
    first, last = float(rows["across"].min()), float(rows["across"].max())
    spare = max((last / first) ** _SPARE, _LEAST_SPARE)
    return alt.X(
        field="across",
        type="quantitative",
        title=points.x_title,
        scale=alt.Scale(type="log", base=2, domain=[first / spare, last * spare], nice=False),
        axis=alt.Axis(
            values=[float(value) for value in sorted(rows["x"].unique())], labelExpr=NUMBER,
            grid=False, ticks=True, tickSize=4, labelOverlap="greedy", labelSeparation=6,
        ),
    )  # fmt: skip


def _colours(points: Points, width: int) -> dict[str, Any]:
    if len(points.series) == 1:
        return {}
    encoding = coloured(points.rows, "series", width, points.series)
    legend = encoding["color"]["legend"]
    legend["symbolType"], legend["symbolOpacity"] = "circle", 1
    if points.series_title:
        encoding["color"]["scale"]["range"] = in_order(len(points.series))
        legend["title"] = points.series_title
    return encoding


def _layers(rows: pd.DataFrame, plane: _Plane) -> Iterator[alt.Chart]:
    """A line, an interval and a dot for each point; a ring for its second quantity."""
    if plane.is_share:
        ideal = alt.Chart({"values": [{"ideal": _IDEAL}]})
        yield ideal.mark_rule(color=QUIET, strokeDash=[4, 3]).encode(y=plane.y("ideal"))
    yield from _lines(rows, plane)
    base = chart_of(rows.drop(columns=["panel"])).encode(x=plane.x, **plane.colours)
    known = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    yield known.mark_rule(strokeWidth=1.5, **plane.plain).encode(y=plane.y("low"), y2="high:Q")
    for end in ("low", "high"):
        yield (
            known.transform_filter(f"datum.{end}_stands_out")
            .mark_tick(orient="horizontal", size=_CAP, thickness=1.5, **plane.plain)
            .encode(y=plane.y(end))
        )
    tooltip = {"series": "series", "x": "at", "value": plane.up.title, "low": "low", "high": "high"}
    yield base.mark_point(filled=True, size=_DOT, opacity=1, stroke=PAPER, strokeWidth=0.75).encode(
        y=plane.y("value"), **hover(tooltip | {"fit": "curve"})
    )
    if rows["second"].notna().any():
        yield _rings(rows, plane)


def _rings(rows: pd.DataFrame, plane: _Plane) -> alt.Chart:
    rings = chart_of(rows[["across", "series", "second"]].dropna()).mark_point(
        filled=True, fill=PAPER, size=_DOT, opacity=1, strokeWidth=1.5,
        stroke=CONFIG["mark"]["color"],
    )  # fmt: skip
    stroke = {}
    if plane.colours:
        stroke["stroke"] = alt.Stroke(**{**plane.colours["color"].to_dict(), "legend": None})
    encoded: alt.Chart = rings.encode(x=plane.x, y=plane.y("second"), **stroke)
    return encoded


def _lines(rows: pd.DataFrame, plane: _Plane) -> Iterator[alt.Chart]:
    """Fitted curves, or lines from point to point where there is none; dashed ones of `second`."""
    through, second = list[dict[str, Any]](), list[dict[str, Any]]()
    for name, own in rows.sort_values("x").groupby("series", sort=False):
        fitted = own.dropna(subset=["fit"])
        places = _sampled(fitted) if len(fitted) > 1 else _places(own, "value")
        through += [{"series": name, "across": a, "y": b} for a, b in places]
        known = own.dropna(subset=["second"])
        second += [{"series": name, "across": a, "y": b} for a, b in _places(known, "second")]
    for corners, dashes in ((through, [1, 0]), (second, [4, 3])):
        if corners:
            line = chart_of(pd.DataFrame(corners)).mark_line(
                strokeWidth=1.5, opacity=0.75, clip=True, strokeDash=dashes
            )
            yield line.encode(x=plane.x, y=plane.y("y"), **plane.colours)


def _places(rows: pd.DataFrame, column: str) -> Iterator[tuple[float, float]]:
    return zip(rows["across"], rows[column], strict=True)


def _sampled(rows: pd.DataFrame) -> Iterator[tuple[float, float]]:
    """Places on the curve through fitted values, which is a polynomial of what is across."""
    last = float(rows["x"].max())
    degree = min(_DEGREE, rows["x"].nunique() - 1)
    found = np.polynomial.Polynomial.fit(rows["x"] / last, rows["fit"], degree)
    shift = float((rows["across"] / rows["x"]).iloc[0])
    for place in np.geomspace(float(rows["x"].min()), last, _SAMPLES):
        yield float(place * shift), float(found(place / last))
