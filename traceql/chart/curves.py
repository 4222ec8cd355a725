"""Curves: what was measured at several loads or sizes, with intervals, and a line through it.

The line is a fitted curve if there is one, and else joins the points. Each panel has the same axes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa

from traceql.chart.data import axis_title, chart_of, in_display_units
from traceql.chart.encodings import coloured, hover
from traceql.chart.palette import in_order
from traceql.chart.panels import Row, in_rows, name_of, row_of
from traceql.chart.powers import pixels_up, round_values
from traceql.chart.theme import CONFIG, PAPER, QUIET

_HEIGHT = 220  # pixels of a panel
_AXIS = 58  # pixels of the vertical axis with its title
_DOT = 30  # square pixels
_CAP = 7  # pixels: length of the ends of an interval
_COVERED = 4.5  # pixels: an end that is closer to its dot would look like a part of that
_APART = 3.0  # pixels between the points of two series at one place, at most
_MOST_APART = 0.5  # of the distance between two places, all series together
_SPARE = 0.06  # of the axes, at their ends
_WIDE = 8  # from this ratio of largest to smallest value on, the vertical axis is logarithmic
_SAMPLES = 40  # of a fitted curve
_DEGREE = 2  # of a fitted curve, as a polynomial of what is across: no part of a step grows faster
_IDEAL = 100.0  # percent
NUMBER = ",~r"  # of D3


@dataclass(frozen=True)
class _Plot:
    """What all panels share.

    Attributes:
        places: the measured values across.
        low: lower end of the vertical axis.
        high: its upper end.
        by_powers: whether the vertical axis is logarithmic.
        is_percent: whether the values are shares of an ideal.
        x_title: of the horizontal axis.
        y_title: of the vertical axis.
        has_second: whether there is a second quantity.
        series: the distinct series, in order.
    """

    places: Sequence[float]
    low: float
    high: float
    by_powers: bool
    is_percent: bool
    x_title: str
    y_title: str
    has_second: bool
    series: Sequence[str]


def curve(table: pa.Table, channels: dict[str, str], width: int) -> alt.VConcatChart:
    """The chart.

    Its channels low and high are the ends of the interval of y, `fit` is the value on a curve, `second`
    another quantity of the same unit, and `name` a column that says what is measured. If there are
    several columns for x or color, the first with values counts.
    """
    data, plot, title = _prepared(table, channels)
    names = list(dict.fromkeys(data["panel"]))
    row = row_of(len(names), width, _AXIS, one_axis=True)
    data["across"] = _apart(data, plot, row)
    for end in ("low", "high"):
        data[f"{end}_stands_out"] = _stands_out(data, end, plot)
    x = _across(data["across"], plot, row.width)
    colours = _colours(data, plot, title, width)
    panels = [
        _panel(data[data["panel"] == name], plot, x, row, colours, has_axis=not place % row.panels)
        for place, name in enumerate(names)
    ]
    return in_rows(panels, row)


def _prepared(table: pa.Table, channels: dict[str, str]) -> tuple[pd.DataFrame, _Plot, str]:
    """The points, what their panels share, and the title of the colors."""
    value = channels["y"]
    more = [channels[one] for one in ("low", "high", "fit", "second") if one in channels]
    given, (y_title,) = in_display_units(table, [value, *more])
    x, series = _first(given, channels["x"]), _first(given, channels.get("color", ""))
    assert x  # or there would be nothing to draw
    given = given.dropna(subset=[x, value, *([series] if series else [])])
    told = ""
    if (
        series
        and given[x].nunique() == 1
        and _is_number(given[series])
        and given[series].nunique() > 1
    ):
        told = f", {axis_title(x)}: {_plain(given[x].iloc[0])}"
        x, series = series, None
    data = pd.DataFrame(
        {
            "x": given[x].astype("float64"),
            "value": given[value],
            **{
                one: given[channels[one]] if one in channels else np.nan
                for one in ("low", "high", "fit", "second")
            },
            "key": given[series] if series else "",
            "panel": given[channels["panel"]] if "panel" in channels else "",
        }
    )
    distinct = data["key"].unique()
    ordered = sorted(distinct) if series and _is_number(given[series]) else list(distinct)
    data["series"] = [_plain(one) for one in data["key"]]
    numbers = data[["value", "low", "high", "fit", "second"]]
    flat = numbers.stack()
    by_powers = bool(flat.min() > 0 and flat.max() / flat.min() > _WIDE)
    is_percent = value.endswith("_pct")
    if "name" in channels and len(given):
        y_title = _named(str(given[channels["name"]].iloc[0]), y_title)
    highest = max(float(flat.max()), _IDEAL if is_percent else 0.0)
    if "second" in channels and data["second"].notna().any():
        y_title += _told_apart(y_title, axis_title(channels["second"]))
    plot = _Plot(
        places=sorted(data["x"].unique()),
        low=float(flat.min()) / 1.2 if by_powers else min(0.0, float(flat.min())),
        high=highest * (1.2 if by_powers else 1 + _SPARE) or 1.0,
        by_powers=by_powers,
        is_percent=is_percent,
        x_title=axis_title(x) + told,
        y_title=y_title,
        has_second=bool(data["second"].notna().any()),
        series=[_plain(one) for one in ordered],
    )
    return data.drop(columns="key"), plot, axis_title(series) if series else ""


def _first(data: pd.DataFrame, columns: str) -> str | None:
    """The first of several columns that has values."""
    return next((one for one in columns.split(",") if one and data[one].notna().any()), None)


def _is_number(values: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(values))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"


def _named(name: str, title: str) -> str:
    """The title of an axis with what is measured: "TPOT (ms)" for tpot."""
    words = name.upper() if len(name) <= len("tpot") else name.replace("_", " ")
    unit = title[title.rfind("(") :] if "(" in title else ""
    return (
        f"{words} {unit}".strip()
        if unit != "(%)"
        else f"{title.removesuffix(' (%)')} of {words} (%)"
    )


def _told_apart(title: str, second: str) -> str:
    """Which points are what: ": ● all, ○ good" for requests per second and good ones."""
    return f": \u25cf all, \u25cb {second.removesuffix(title).strip()}"


def _apart(data: pd.DataFrame, plot: _Plot, row: Row) -> pd.Series:
    """Places across where the points of several series do not cover each other."""
    count = len(plot.series)
    logs = np.log2(plot.places)
    span = float(logs[-1] - logs[0]) or 2.0
    gap = float(np.diff(logs).min()) if len(logs) > 1 else span / 2
    step = min(_APART * span / row.width, _MOST_APART * gap / count)
    number = data["series"].map({name: n for n, name in enumerate(plot.series)})
    shifted: pd.Series = data["x"] * 2 ** ((number - (count - 1) / 2) * step)
    return shifted


def _colours(data: pd.DataFrame, plot: _Plot, title: str, width: int) -> dict[str, Any]:
    if len(plot.series) == 1:
        return {}
    encoding = coloured(data, "series", width, plot.series)
    if all(name.replace(",", "").replace(".", "").isdigit() for name in plot.series):
        encoding["color"]["scale"]["range"] = in_order(len(plot.series))
        encoding["color"]["legend"]["title"] = title
    encoding["color"]["legend"]["symbolType"] = "circle"
    encoding["color"]["legend"]["symbolOpacity"] = 1
    return encoding


def _panel(
    data: pd.DataFrame, plot: _Plot, x: alt.X, row: Row, colours: dict[str, Any], *, has_axis: bool
) -> alt.LayerChart:
    name, y = data["panel"].iloc[0], _upward(plot, has_axis=has_axis)
    points = chart_of(data.drop(columns=["panel"])).encode(x=x, **colours)
    plain = {} if colours else {"color": CONFIG["mark"]["color"]}
    known = points.transform_filter("isValid(datum.low) && isValid(datum.high)")
    ends = [
        known.transform_filter(f"datum.{end}_stands_out")
        .mark_tick(orient="horizontal", size=_CAP, thickness=1.5, **plain)
        .encode(y=_at(y, end))
        for end in ("low", "high")
    ]
    told = {
        "series": "series",
        "x": plot.x_title,
        "value": plot.y_title,
        "low": "low",
        "high": "high",
    }
    layers = [
        *([name_of(name)] if name else []),
        *_ideal(plot, y),
        *_lines(data, plot, x, y, colours),
        known.mark_rule(strokeWidth=1.5, **plain).encode(y=_at(y, "low"), y2=alt.Y2(field="high")),
        *ends,
        points.mark_point(filled=True, size=_DOT, opacity=1, stroke=PAPER, strokeWidth=0.75).encode(
            y=y, **hover(told | ({"fit": "curve"} if data["fit"].notna().any() else {}))
        ),
    ]
    if plot.has_second:
        hollow = points.transform_filter("isValid(datum.second)").mark_point(
            filled=True, fill=PAPER, size=_DOT, opacity=1, strokeWidth=1.5
        )
        stroke = (
            {"stroke": alt.Stroke(**{**colours["color"].to_dict(), "legend": None})}
            if colours
            else {}
        )
        layers.append(hollow.encode(y=_at(y, "second"), **stroke))
    drawn: alt.LayerChart = alt.LayerChart(layer=layers).properties(width=row.width, height=_HEIGHT)
    return drawn


def _lines(
    data: pd.DataFrame, plot: _Plot, x: alt.X, y: alt.Y, colours: dict[str, Any]
) -> Iterator[alt.Chart]:
    """Fitted curves, or lines from point to point where there is none; dashed ones of `second`."""
    through, second = list[dict[str, Any]](), list[dict[str, Any]]()
    for name, own in data.sort_values("x").groupby("series", sort=False):
        fitted = own.dropna(subset=["fit"])
        places = _sampled(fitted) if len(fitted) > 1 else _places(own, "value")
        through += [{"series": name, "across": a, "y": b} for a, b in places]
        known = own.dropna(subset=["second"])
        second += [{"series": name, "across": a, "y": b} for a, b in _places(known, "second")]
    for rows, dashes in ((through, [1, 0]), (second, [4, 3])):
        if rows:
            line = chart_of(pd.DataFrame(rows)).mark_line(
                strokeWidth=1.5, opacity=0.75, clip=True, strokeDash=dashes
            )
            yield line.encode(x=x, y=_at(y, "y"), **colours)


def _places(rows: pd.DataFrame, column: str) -> Iterator[tuple[float, float]]:
    return zip(rows["across"], rows[column], strict=True)


def _sampled(rows: pd.DataFrame) -> Iterator[tuple[float, float]]:
    """Places on the curve through fitted values, which is a polynomial of what is across."""
    scale = float(rows["x"].max())
    degree = min(_DEGREE, rows["x"].nunique() - 1)
    found = np.polynomial.Polynomial.fit(rows["x"] / scale, rows["fit"], degree)
    shift = float((rows["across"] / rows["x"]).iloc[0])
    for place in np.geomspace(rows["x"].min(), scale, _SAMPLES):
        yield float(place * shift), float(found(place / scale))


def _ideal(plot: _Plot, y: alt.Y) -> Iterator[alt.Chart]:
    if plot.is_percent:
        line = alt.Chart({"values": [{"ideal": _IDEAL}]})
        yield line.mark_rule(color=QUIET, strokeDash=[4, 3]).encode(y=_at(y, "ideal"))


def _stands_out(data: pd.DataFrame, end: str, plot: _Plot) -> pd.Series:
    """Whether the end of an interval is beyond the dot."""
    axis = (plot.low, plot.high)
    value, other = (
        data[one].map(lambda v: pixels_up(v, axis, _HEIGHT, by_powers=plot.by_powers))
        for one in ("value", end)
    )
    found: pd.Series = (value - other).abs() > _COVERED
    return found


def _across(drawn: pd.Series, plot: _Plot, width: int) -> alt.X:
    first, last = float(drawn.min()), float(drawn.max())
    spare = max((last / first) ** _SPARE, 1.15)
    return alt.X(
        field="across",
        type="quantitative",
        title=plot.x_title,
        scale=alt.Scale(type="log", base=2, domain=[first / spare, last * spare], nice=False),
        axis=alt.Axis(
            values=list(plot.places), labelExpr=f"format(datum.value, '{NUMBER}')", grid=False,
            ticks=True, tickSize=4, domain=True, labelOverlap="greedy", labelSeparation=6,
        ),
    )  # fmt: skip


def _upward(plot: _Plot, *, has_axis: bool) -> alt.Y:
    scale = {"type": "log"} if plot.by_powers else {}
    values = {"values": round_values((plot.low, plot.high))} if plot.by_powers else {"tickCount": 5}
    return alt.Y(
        field="value",
        type="quantitative",
        title=plot.y_title if has_axis else None,
        scale=alt.Scale(domain=[plot.low, plot.high], nice=False, **scale),
        axis=alt.Axis(
            **values, labels=has_axis, labelExpr=f"format(datum.value, '{NUMBER}')", domain=False,
            minExtent=_AXIS - 22 if has_axis else 0, maxExtent=_AXIS - 22,
        ),
    )  # fmt: skip


def _at(y: alt.Y, field: str) -> alt.Y:
    """The vertical axis for another column."""
    return alt.Y(
        field=field, type="quantitative", title=y["title"], scale=y["scale"], axis=y["axis"]
    )
