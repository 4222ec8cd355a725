"""Forest plots: for each row how far a number moved, with the interval around it."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa

from traceql.result.chart.bar_labels import LETTER, MARGIN, signed
from traceql.result.chart.data import axis_title, chart_of
from traceql.result.chart.encodings import across, beside_labels, coloured, hover, row_axis, up_to
from traceql.result.chart.palette import VERDICTS
from traceql.result.chart.theme import CONFIG, INK, PAPER, QUIET

_STEP = 24  # pixels of a row
_LEAST = 1.0  # percent: the axis shows this much on both sides of 0 at least
_DOT = 60  # square pixels
_UNKNOWN = "#767676"


def forest(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    """The chart; its channel x is the change, and the lower and upper end of its interval."""
    y, colour, columns = channels["y"], channels["color"], channels["x"].split(",")
    data = table.to_pandas().dropna(subset=columns[:1])
    data[["change", "low", "high"]] = data[columns].astype("float64")
    data = data.assign(name=data[y].astype(str), verdict=data[colour].fillna("no verdict"))
    data["is_sure"] = data["low"].notna() & data["verdict"].isin([*VERDICTS])
    data["label"] = [
        _label(row) for row in data[["change", "low", "high"]].to_numpy(na_value=np.nan)
    ]
    room = beside_labels(data, "name", width)
    axis = across("change", "change (%)", width)
    low, high, end = _domain(data, room)
    axis["scale"] = alt.Scale(domain=[low, end], nice=False)
    axis["axis"] = up_to(axis["axis"], high)
    shown = data[["name", "change", "low", "high", "verdict", "is_sure", "label"]]
    rows = chart_of(shown).encode(y=row_axis(data, "name", width))
    encoding = _colours(shown, room)
    told = hover({"name": axis_title(y), "label": "change (%)", "verdict": "verdict"})
    zero = alt.Chart({"values": [{"zero": 0}]}).mark_rule(color=QUIET, strokeDash=[3, 3])
    lower = alt.X(field="low", type="quantitative")
    intervals = (
        rows.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=3, opacity=0.45)
        .encode(x=lower, x2=alt.X2(field="high"), **encoding)
    )
    ends = [
        rows.transform_filter("isValid(datum.low)")
        .mark_tick(thickness=2, size=9, opacity=0.8)
        .encode(x=alt.X(field=end, type="quantitative"), **encoding)
        for end in ("low", "high")
    ]
    known = rows.transform_filter("datum.is_sure").mark_point(size=_DOT, filled=True, opacity=1)
    unknown = rows.transform_filter("!datum.is_sure").mark_point(
        size=_DOT, filled=True, fill=PAPER, strokeWidth=1.75, opacity=1
    )
    stroke = alt.Stroke(**{**encoding["color"].to_dict(), "legend": None})
    labels = rows.mark_text(
        align="right", color=INK, fontSize=CONFIG["axis"]["labelFontSize"]
    ).encode(x=alt.value("width"), text=alt.Text(field="label", type="nominal"))
    layers = [
        zero.encode(x=alt.X(field="zero", type="quantitative")),
        intervals,
        *ends,
        unknown.encode(x=axis, stroke=stroke, **told),
        known.encode(x=axis, **encoding, **told),
        labels,
    ]
    chart: alt.LayerChart = alt.LayerChart(layer=layers).properties(height=alt.Step(_STEP))
    return chart


def _domain(data: pd.DataFrame, room: int) -> tuple[float, float, float]:
    """The least and the greatest value, with 0; and the end, with room for the labels."""
    values = data[["change", "low", "high"]].to_numpy(na_value=0.0)
    low, high = min(float(values.min()), -_LEAST), max(float(values.max()), _LEAST)
    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    letters = data["label"].str.len().max() * LETTER + 2 * MARGIN
    return low, high, low + (high - low) / max(1 - letters / room, 0.3)


def _label(row: Sequence[float]) -> str:
    """The change and its interval."""
    change, low, high = row
    decimals = 1 if abs(change) < 99.5 else 0
    told = f"{signed(change, decimals)}%"
    return (
        told
        if np.isnan(low)
        else f"{told}\u2002[{signed(low, decimals)}, {signed(high, decimals)}]"
    )


def _colours(data: pd.DataFrame, room: int) -> dict[str, Any]:
    encoding = coloured(data, "verdict", room)
    scale = encoding["color"]["scale"]
    encoding["color"]["legend"]["symbolOpacity"] = 1
    scale["range"] = [VERDICTS.get(verdict, _UNKNOWN) for verdict in scale["domain"]]
    return encoding
