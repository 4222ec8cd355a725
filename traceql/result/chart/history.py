"""Histories: one panel for each series of points, with the changes marked.

A line joins the points of a series. The grey band is where a point is expected by those before it;
a thin line is the level between two changes. A bar through a point is the range of its runs.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.encodings import chart_of, hover, in_display_units, layered
from traceql.result.chart.theme import CONFIG, INK, LABEL_SIZE, PAPER, QUIET, RULE, SEQUENCE

_HEIGHT = 170  # pixels of a panel
_AXIS = 62  # pixels: of the values and the title beside a panel
_PADDING = 2 * CONFIG["padding"] + 14
_TICK = 90  # pixels between times
_LABEL = 78  # pixels between commits
_LEGEND = 116  # pixels of an entry
_SPARE = 0.12  # of the values, above and below
_LEAST_SPAN = 0.05  # of an axis, relative to the median: noise of 0.1% must not look like a change
_BANDS = "expected range"
_BLUE, _GREEN, _VERMILION = SEQUENCE[0], SEQUENCE[2], SEQUENCE[5]
_KINDS = {  # in the order of the legend: fill and stroke
    "as expected": (_BLUE, _BLUE),
    "too few before": (PAPER, _BLUE),
    "slower from here": (_VERMILION, _VERMILION),
    "faster from here": (_GREEN, _GREEN),
    "outlier": (PAPER, QUIET),
    "unconfirmed": (PAPER, _VERMILION),
    _BANDS: (RULE, RULE),  # of the band
}
_LEAST_HALF = 0.5  # of an axis of zeros
_NS_OF_MS, _HOUR_MS = 10**6, 3_600_000
_SPARE_TIMES = 50  # the part of all time that is left free on each side
_RIGHT = 0.7  # of the width; from here on, a text stands to the left of its rule


def history(table: pa.Table, channels: dict[str, str], width: int) -> alt.VConcatChart:
    in_ns = [channels[one] for one in ("y", "low", "high", "level", "expected", "margin")]
    panels = [
        _panel(table.filter(pc.equal(table[channels["panel"]], name)), channels, in_ns)
        for name in table[channels["panel"]].unique().to_pylist()
    ]
    inner = width - _AXIS - _PADDING
    shares = _shares(table, channels["x"])
    for data, _ in panels:
        data["is_right"] = [shares[x] > _RIGHT for x in data["x"]]
    seen = {kind for data, _ in panels for kind in data["kind"]}
    seen |= {_BANDS for data, _ in panels if data["band_low"].notna().any()}
    kinds = [kind for kind in _KINDS if kind in seen]
    axis = _across(shares, inner, is_time=channels["x"].endswith("_ns"))
    drawn: alt.VConcatChart = alt.vconcat(
        *(_drawn(data, title, axis, kinds, inner, names=len(panels) > 1) for data, title in panels),
        spacing=18,
    ).resolve_scale(fill="shared", stroke="shared")
    return drawn


def _panel(rows: pa.Table, channels: dict[str, str], in_ns: list[str]) -> tuple[pd.DataFrame, str]:
    """The points of a series, and the title of their axis."""
    data, (title,) = in_display_units(rows, in_ns)
    names = {channels[one]: one for one in channels if one != "x"}
    x = data[channels["x"]]
    data = data.rename(columns=names)
    data["x"] = _x(x.tolist(), channels["x"])
    data["kind"] = [_kind(row) for row in data.to_dict("records")]
    changed = data["mark"] == "change"
    data["segment"] = changed.cumsum()
    # What let expect something else at a change was what came before.
    data["band"] = data["segment"] - changed
    data["band_low"] = data["expected"] - data["margin"]
    data["band_high"] = data["expected"] + data["margin"]
    data["text"] = data["shift"].where(data["mark"] == "change", None)
    unit = title[title.rfind("(") + 1 : -1] if "(" in title else ""
    data["ink"] = [_KINDS[kind][1] for kind in data["kind"]]
    data["tooltip"] = [f"{value:.4g} {unit}" for value in data["y"]]
    return data, f"median ({unit})" if unit else "median"


def _kind(row: dict[Any, Any]) -> str:
    if row["mark"] == "change":
        return "slower from here" if row["y"] > row["expected"] else "faster from here"
    return row["mark"] or "as expected"


def _x(values: list[Any], column: str) -> list[Any]:
    """Places on the axis: times in ms, or texts."""
    return [value // _NS_OF_MS for value in values] if column.endswith("_ns") else values


def _shares(table: pa.Table, column: str) -> dict[Any, float]:
    """How far right each place on the axis is, from 0 to 1; texts in the order of their times."""
    places = _x(table[column].to_pylist(), column)
    if column.endswith("_ns"):
        first, span = min(places), max(1, max(places) - min(places))
        return {place: (place - first) / span for place in places}
    times = table["recorded_unix_ns"].to_pylist()
    order = list(dict.fromkeys(place for _, place in sorted(zip(times, places, strict=True))))
    return {place: number / len(order) for number, place in enumerate(order)}


def _across(shares: dict[Any, float], width: int, *, is_time: bool) -> alt.X:
    """The same axis for all panels, so that they can be compared."""
    places = list(shares)
    if not is_time:
        every = -(-len(places) * _LABEL // width)
        axis = alt.Axis(grid=False, labelAngle=0, values=places[::every])
        scale = alt.Scale(type="point", domain=places, padding=0.5)
        return alt.X(field="x", type="ordinal", title=None, scale=scale, axis=axis)
    first, last = min(places), max(places)
    spare = (last - first) // _SPARE_TIMES or _HOUR_MS
    scale = alt.Scale(type="utc", domain=[first - spare, last + spare], nice=False)
    axis = alt.Axis(grid=False, tickCount=max(2, width // _TICK))
    return alt.X(field="x", type="temporal", title=None, scale=scale, axis=axis)


def _upward(data: pd.DataFrame, title: str) -> alt.Y:
    low, high = float(data["low"].min()), float(data["high"].max())
    room = high - low  # a wide band may be cut: the points are what is looked at
    band = data[["band_low", "band_high"]].to_numpy("float64")
    if not np.isnan(band).all():
        low, high = (
            max(low - room, min(low, np.nanmin(band))),
            min(high + room, max(high, np.nanmax(band))),
        )
    least = _LEAST_SPAN * abs(float(data["y"].median())) or _LEAST_HALF
    middle, half = (low + high) / 2, max((high - low) / 2 * (1 + 2 * _SPARE), least)
    ends = [max(0.0, middle - half) if low >= 0 else middle - half, middle + half]
    return alt.Y(
        field="y",
        type="quantitative",
        title=title,
        scale=alt.Scale(domain=ends, zero=False, nice=False),
        axis=alt.Axis(tickCount=5, minExtent=_AXIS - 22, maxExtent=_AXIS - 22),
    )


def _drawn(
    data: pd.DataFrame, title: str, x: alt.X, kinds: list[str], width: int, *, names: bool
) -> alt.LayerChart:
    base = chart_of(data.drop(columns=["names"], errors="ignore")).encode(x=x)
    y = _upward(data, title)

    def at(field: str) -> alt.Y:
        scale, axis = y["scale"], y["axis"]
        return alt.Y(field=field, type="quantitative", scale=scale, title=title, axis=axis)

    known = base.transform_filter("isValid(datum.band_low)")
    layers = [
        known.mark_area(color=QUIET, opacity=0.13, clip=True, interpolate="linear").encode(
            y=at("band_low"), y2="band_high:Q", detail="band:N"
        ),
        base.mark_line(color=QUIET, strokeWidth=1, clip=True).encode(
            y=at("level"), detail="segment:N"
        ),
        base.transform_filter("datum.mark !== 'outlier'")
        .mark_line(color=_BLUE, strokeWidth=1.25, opacity=0.45)
        .encode(y=at("y")),
        base.transform_filter("datum.low < datum.high")
        .mark_rule(color=_BLUE, strokeWidth=3, opacity=0.4)
        .encode(y=at("low"), y2="high:Q"),
        base.transform_filter("datum.text")
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.25)
        .encode(color=alt.Color(field="ink", type="nominal", scale=None)),
        base.mark_point(filled=True, size=62, strokeWidth=1.6, opacity=1).encode(
            y=y,
            fill=alt.Fill(**_coloured(kinds, 0, width)),
            stroke=alt.Stroke(**_coloured(kinds, 1, width)),
            **hover({"label": "run", "tooltip": "median", "z": "z", "kind": "mark"}),
        ),
        base.transform_filter("datum.text")
        .mark_text(
            align={"expr": "datum.is_right ? 'right' : 'left'"},
            dx={"expr": "datum.is_right ? -6 : 6"},
            baseline="top",
            fontSize=11.5,
            fontWeight=600,
            color=INK,
        )
        .encode(y=alt.value(2), text="text:N"),
    ]
    if note := data["note"].iloc[0]:  # in the upper right corner
        noted = chart_of(pd.DataFrame({"text": [note]}))
        text = noted.mark_text(align="right", baseline="top", color=QUIET, fontSize=LABEL_SIZE)
        layers.append(text.encode(x=alt.value(width), y=alt.value(2), text="text:N"))
    above = alt.TitleParams(
        data["panel"].iloc[0], fontSize=12, fontWeight=600, offset=8, frame="group"
    )
    chart = layered(layers, width=width, height=_HEIGHT)
    return chart.properties(title=above) if names else chart


def _coloured(kinds: list[str], place: int, width: int) -> dict[str, Any]:
    colours = [_KINDS[kind][place] for kind in kinds]
    columns = max(1, min(len(kinds), width // _LEGEND))
    legend = alt.Legend(
        title=None, orient="top", columns=columns, symbolType="circle", symbolStrokeWidth=1.6
    )
    scale = alt.Scale(domain=kinds, range=colours)
    return {"field": "kind", "type": "nominal", "scale": scale, "legend": legend}
