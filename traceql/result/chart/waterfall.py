"""Waterfalls: what a total is made of, each bar beginning where the one before it ended.

The rows come in the order of the bars, and their values, of which some may be negative, add up to
the total, which is the first bar. Several totals, such as those of phases, stand below each other
and are equally long. A column `scale` has the greatest value of the axis, so that several charts
compare.
"""

import json
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.bar_labels import Area, beside, label_marks
from traceql.result.chart.data import axis_title, chart_of, in_display_units
from traceql.result.chart.encodings import SHARE_OF_LABELS, across, beside_labels, coloured, hover
from traceql.result.chart.theme import INK, QUIET, ROW_HEIGHT
from traceql.result.chart.waterfall_bars import TOTAL, waterfall_bars

_THICK, _NEGATIVE = 0.76, 0.5  # height of a bar in its row; opacity of what was saved
_EXTENT = 125  # pixels: of the labels of rows, where several charts have one scale
_MANY = 100  # from here on, decimals do not matter


def waterfall(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    x, y, colour, group = channels["x"], channels["y"], channels["color"], channels.get("group")
    scale = [channels["scale"]] if "scale" in channels else []
    data, (title,) = in_display_units(table, [x, *scale])
    rows = data[[x, y, colour]].set_axis(["value", "name", "kind"], axis=1)
    rows["group"] = data[group].fillna(TOTAL) if group else TOTAL
    bars = waterfall_bars(rows)
    if group:
        bars[group] = bars["group"]  # the marks of a page are chosen by it
    bars["name"] = bars["name"].where(bars["name"] != bars["kind"], bars["name"].map(_plain))
    room = beside_labels(bars, "name", width)
    ends = bars[["start", "end"]].to_numpy()
    high = max(float(ends.max()), *(float(data[column].max()) for column in scale), 0.0)
    area = Area(float(ends.min()), high, room)
    bars = _labelled(bars, title[title.rfind("(") + 1 : -1], area)
    start = across("start", title if bars["group"].nunique() == 1 else "share (%)", width)
    start["scale"] = alt.Scale(domain=[area.low, area.high], nice=False)
    row = _row(bars, width)
    if scale:  # labels of one width, so that bars of one length are equally long in all charts
        extent = min(width * SHARE_OF_LABELS, _EXTENT)
        row["axis"].minExtent = row["axis"].maxExtent = row["axis"].labelLimit = extent
    base = chart_of(bars).encode(y=row)
    seams = (
        base.transform_filter("datum.has_next")
        .mark_rule(color=QUIET, strokeWidth=0.75)
        .encode(x=alt.X(field="end", type="quantitative"), y2=alt.Y2(field="next"))
    )
    names = {"name": axis_title(y), "kind": axis_title(colour), "label": title}
    drawn = base.mark_bar(
        height=alt.RelativeBandSize(band=_THICK),
        opacity={"expr": f"datum.value < 0 ? {_NEGATIVE} : 1"},
    ).encode(x=start, x2=alt.X2(field="end"), **_colours(bars, room), **hover(names))
    labels = label_marks(base)
    chart: alt.LayerChart = alt.LayerChart(layer=[seams, drawn, labels]).properties(
        height=alt.Step(ROW_HEIGHT)
    )
    return chart


def _row(bars: pd.DataFrame, width: int) -> alt.Y:
    """A row per bar, because bars of two groups may have the same name."""
    names = json.dumps(bars["name"].tolist())
    limit = width * SHARE_OF_LABELS
    axis = alt.Axis(labelExpr=f"{names}[datum.value]", labelLimit=limit, grid=False)
    return alt.Y(field="row", type="ordinal", title=None, axis=axis)


def _labelled(bars: pd.DataFrame, unit: str, area: Area) -> pd.DataFrame:
    """With the value and share of each bar."""
    decimals = 0 if bars["total"].max() >= _MANY else 2
    values = zip(bars["value"], bars["total"], strict=True)
    label = pd.Series([_said(value, total, unit, decimals) for value, total in values])
    return beside(bars.assign(label=label), area)


def _said(value: float, total: float, unit: str, decimals: int) -> str:
    share = value / total if total else 0
    percent = f"{share:.0%}" if abs(share) >= 0.1 else f"{share:.1%}"
    return f"{value:,.{decimals}f} {unit}\u2002{percent}".replace("-", "\u2212")


def _colours(bars: pd.DataFrame, room: int) -> dict[str, Any]:
    """The color of each kind; the legend has those with bars of other names."""
    encoding = coloured(bars, "kind", room)
    scale, legend = encoding["color"]["scale"], encoding["color"]["legend"]
    colours = zip(scale["domain"], scale["range"], strict=True)
    scale["range"] = [INK if kind == TOTAL else colour for kind, colour in colours]
    unnamed = bars.loc[bars["name"] != bars["kind"].map(_plain), "kind"]
    legend["values"] = [kind for kind in unnamed.unique() if kind != TOTAL]
    legend["labelExpr"] = "replace(datum.label, /_/g, ' ')"
    if not legend["values"]:
        encoding["color"]["legend"] = None
    return encoding


def _plain(kind: str) -> str:
    return kind.replace("_", " ")
