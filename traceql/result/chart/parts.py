"""Parts of totals: stacked bars on both sides of zero, in one panel for each kind of row."""

import math
from dataclasses import dataclass

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.bars import named_parts, part_name
from traceql.result.chart.data import axis_title, chart_of, in_display_units
from traceql.result.chart.encodings import SHARE_OF_LABELS, across, coloured, hover, row_axis
from traceql.result.chart.theme import CONFIG, INK, PAPER, QUIET, ROW_HEIGHT

_MOST_ROWS = 40  # of a panel
_LETTER = 5.6  # pixels
_TOTAL = 58  # pixels: room for the text of a total
_STEP = ROW_HEIGHT + 4  # pixels
_TICK = 18  # pixels: length of the line at a total that is not where a bar ends
_EDGE = 2 * CONFIG["padding"] + 14  # pixels
_DECIMALS = 3  # of a total below 10; of larger ones, fewer


@dataclass(frozen=True)
class _Plot:
    """What all panels share; widths in pixels."""

    y: str
    total: str
    title: str
    order: list[str]
    labels: int
    width: int


def parts(table: pa.Table, channels: dict[str, str], width: int) -> alt.VConcatChart:
    """Positive parts go right from zero and negative ones left; the text is their sum."""
    columns, y, total = channels["x"].split(","), channels["y"], channels["total"]
    panel = channels["panel"]
    data, (title,) = in_display_units(table, [*columns, total])
    known = named_parts(data, columns, y)
    seen = set(known.loc[known["value"] != 0, "part"])
    longest = max((len(str(value)) for value in data[y]), default=0)
    labels = int(min(longest * _LETTER, width * SHARE_OF_LABELS)) + 8
    plot = _Plot(
        y=y,
        total=total,
        title=f"time ({title.rpartition('(')[2]}; the number is the sum",
        order=[name for name in map(part_name, columns) if name in seen],
        labels=labels,
        width=width - labels - _EDGE,
    )
    panels = [
        _panel(own, columns, plot, str(name)) for name, own in data.groupby(panel, sort=False)
    ]
    drawn: alt.VConcatChart = alt.vconcat(*panels, spacing=18).resolve_scale(
        x="independent", y="independent"
    )
    return drawn


def _panel(data: pd.DataFrame, columns: list[str], plot: _Plot, name: str) -> alt.LayerChart:
    shown = data.loc[data[plot.total].abs().nlargest(_MOST_ROWS).index].sort_index()
    if len(shown) < len(data):
        name += f" (the {len(shown)} longest of {len(data):,}; the table has all)"
    own = named_parts(shown, columns, plot.y)
    own = own[own["value"] != 0]
    own = own.assign(place=own["part"].map({part: n for n, part in enumerate(plot.order)}))
    ends = _ends(shown, own, plot)
    across_all = across("value", plot.title, plot.width)
    spare = plot.width / max(1, plot.width - _TOTAL)
    low, high = min(0.0, ends["low"].min()), max(0.0, ends["high"].max())
    across_all["scale"] = alt.Scale(domain=[low, low + (high - low) * spare or 1.0], nice=False)
    rows = row_axis(shown, plot.y, plot.width + plot.labels, list(dict.fromkeys(shown[plot.y])))
    rows["axis"]["minExtent"] = rows["axis"]["maxExtent"] = plot.labels
    encoding = {"x": across_all, "y": rows} | coloured(own, "part", plot.width, plot.order)
    encoding["order"] = alt.Order(field="place", type="quantitative")
    encoding["color"]["legend"]["labelExpr"] = "replace(datum.label, /_/g, ' ')"
    encoding |= hover({plot.y: axis_title(plot.y), "part": "part", "value": plot.title})
    bars = chart_of(own).mark_bar(stroke=PAPER, strokeWidth=0.5).encode(**encoding)
    zero = chart_of(shown[[plot.y]].head(1)).mark_rule(color=QUIET).encode(x=alt.datum(0))
    texts = chart_of(ends).mark_text(align="left", dx=5, color=INK, fontSize=11)
    texts = texts.encode(
        x=alt.X(field="high", type="quantitative"),
        y=rows,
        text=alt.Text(field="label", type="nominal"),
    )
    layers = [bars, zero, texts]
    if (ends["low"] < 0).any():  # of the other rows, the end of the bar is the total
        ticks = chart_of(ends[ends["low"] < 0]).mark_tick(color=INK, thickness=2, size=_TICK)
        layers.append(ticks.encode(x=alt.X(field="total", type="quantitative"), y=rows))
    drawn: alt.LayerChart = alt.LayerChart(layer=layers).properties(
        height=alt.Step(_STEP),
        width=plot.width,
        title=alt.TitleParams(name, fontSize=12, offset=6, frame="group"),
    )
    return drawn


def _ends(shown: pd.DataFrame, own: pd.DataFrame, plot: _Plot) -> pd.DataFrame:
    """For each row its total, the text of it, and where the parts below and above zero end."""
    least = 0.005 * own["value"].abs().sum()  # less than a pixel
    high = own[own["value"] > 0].groupby(plot.y)["value"].sum()
    low = own[own["value"] < 0].groupby(plot.y)["value"].sum()
    low = low.where(low < -least, 0)
    largest = shown[plot.total].abs().max()
    decimals = max(0, _DECIMALS - math.floor(math.log10(max(largest, 1))))
    ends = shown[[plot.y, plot.total]].rename(columns={plot.total: "total"})
    return ends.assign(
        label=[f"{value:,.{decimals}f}".replace("-", "\u2212") for value in ends["total"]],
        high=ends[plot.y].map(high).fillna(0),
        low=ends[plot.y].map(low).fillna(0),
    )
