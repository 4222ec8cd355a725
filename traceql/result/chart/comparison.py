"""Comparisons in one row each: the two sides of a quantity, or how far it moved.

`dumbbell` has a dot for base and one for new on one scale, with a line between them. `forest` has
the change, with the interval around it.
"""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa

from traceql.result.chart.encodings import (
    LETTER,
    MARGIN,
    across,
    axis_title,
    beside_labels,
    chart_of,
    coloured,
    hover,
    in_display_units,
    layered,
    percent,
    row_axis,
    signed,
    up_to,
)
from traceql.result.chart.theme import (
    CHANGES,
    EQUAL,
    INK,
    LABEL_SIZE,
    NOT_SURE,
    PAPER,
    QUIET,
    ROW_HEIGHT,
    VERDICTS,
)

_MOST_ROWS = 30
_DOT = 55  # square pixels
_EQUAL = 0.005  # relative; a smaller difference has no direction
_KINDS = {"longer": CHANGES["longer"], "shorter": CHANGES["shorter"], "equal": EQUAL}
_STEP = 24  # pixels of a row
_LEAST = 1.0  # percent: the axis shows this much on both sides of 0 at least
_FOREST_DOT = 60  # square pixels
_UNKNOWN = "#767676"


def dumbbell(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    """The chart; of its channel x the first column is base, the second one new.

    If color is a column of verdicts, only a difference that is sure has the color of its direction.
    """
    y, (base, new) = channels["y"], channels["x"].split(",")
    data, (title,) = in_display_units(table, [base, new])
    data = data.assign(base=data[base], new=data[new], name=data[y].astype(str))
    data = data.dropna(subset=["base", "new"], how="all").head(_MOST_ROWS)
    data["verdict"] = data[channels["color"]] if "color" in channels else ""
    before, after = data["base"].fillna(0.0), data["new"].fillna(0.0)
    is_equal = (after - before).abs() <= _EQUAL * np.maximum(before, after)
    data["kind"] = np.where(after > before, "longer", "shorter")
    is_equal |= data["verdict"].isin(NOT_SURE) | (not base.endswith("_ns"))
    data.loc[is_equal, "kind"] = "equal"
    sides = zip(data["base"], data["new"], strict=True)
    data["label"] = [_label(*each, base) for each in sides]
    room = beside_labels(data, "name", width)
    letters = data["label"].str.len().max() * LETTER + 4 * MARGIN
    highest = float(data[["base", "new"]].max().max()) or 1.0
    unit = title[title.rfind("(") :] if "(" in title else ""
    what = "time in a step" if base.endswith("_ns") else axis_title(base.removeprefix("base_"))
    what = "share of the ceiling" if base.endswith("_pct") else what
    what = f"{what} {unit}: \u25cb base, \u25cf new".replace("  ", " ")  # which dot is which
    axis = across("base", what, width)
    axis["scale"] = alt.Scale(domain=[0, highest / max(1 - letters / room, 0.4)], nice=False)
    axis["axis"] = up_to(axis["axis"], 1.02 * highest)
    rows = chart_of(data[["name", "base", "new", "kind", "label"]]).encode(
        y=row_axis(data, "name", width, list(data["name"]))
    )
    tooltip = hover({"name": axis_title(y), "base": "base", "new": "new", "label": "change"})
    scale = alt.Scale(domain=list(_KINDS), range=list(_KINDS.values()))
    colour = alt.Color(field="kind", type="nominal", scale=scale, legend=None)
    line = rows.mark_rule(strokeWidth=2.5, opacity=0.75).encode(x=axis, x2="new:Q", color=colour)
    before = rows.mark_point(
        size=_DOT, filled=True, fill=PAPER, stroke=EQUAL, strokeWidth=1.75, opacity=1
    ).encode(x=axis, **tooltip)
    after = rows.mark_point(size=_DOT, filled=True, opacity=1)
    after = after.encode(x="new:Q", color=colour, **tooltip)
    return layered([line, before, after, _labels_at_right(rows)], height=alt.Step(ROW_HEIGHT))


def _labels_at_right(rows: alt.Chart) -> alt.Chart:
    texts = rows.mark_text(align="right", color=INK, fontSize=LABEL_SIZE)
    labels: alt.Chart = texts.encode(x=alt.value("width"), text="label:N")
    return labels


def _label(base: float, new: float, column: str) -> str:
    """The relative difference; of percentages, their difference in points."""
    is_time = column.endswith("_ns")
    if pd.isna(base) or (is_time and not base):
        return "only new"
    if pd.isna(new) or (is_time and not new):
        return "only base"
    if column.endswith("_pct"):
        return f"{signed(new - base, 1)} points"
    return percent(new / base - 1) if base else ""


def forest(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    """The chart; its channel x is the change, and the lower and upper end of its interval."""
    y, colour, columns = channels["y"], channels["color"], channels["x"].split(",")
    data = table.to_pandas().dropna(subset=columns[:1])
    data[["change", "low", "high"]] = data[columns].astype("float64")
    data = data.assign(name=data[y].astype(str), verdict=data[colour].fillna("no verdict"))
    data["is_sure"] = data["low"].notna() & data["verdict"].isin([*VERDICTS])
    data["label"] = [
        _forest_label(row) for row in data[["change", "low", "high"]].to_numpy(na_value=np.nan)
    ]
    room = beside_labels(data, "name", width)
    axis = across("change", "change (%)", width)
    # The least and the greatest value, with 0; and the end, with room for the labels.
    values = data[["change", "low", "high"]].to_numpy(na_value=0.0)
    low, high = min(float(values.min()), -_LEAST), max(float(values.max()), _LEAST)
    low, high = low - 0.04 * (high - low), high + 0.04 * (high - low)
    letters = data["label"].str.len().max() * LETTER + 2 * MARGIN
    end = low + (high - low) / max(1 - letters / room, 0.3)
    axis["scale"] = alt.Scale(domain=[low, end], nice=False)
    axis["axis"] = up_to(axis["axis"], high)
    shown = data[["name", "change", "low", "high", "verdict", "is_sure", "label"]]
    rows = chart_of(shown).encode(y=row_axis(data, "name", width))
    encoding = coloured(shown, "verdict", room)
    scale = encoding["color"]["scale"]
    encoding["color"]["legend"]["symbolOpacity"] = 1
    scale["range"] = [VERDICTS.get(verdict, _UNKNOWN) for verdict in scale["domain"]]
    tooltip = hover({"name": axis_title(y), "label": "change (%)", "verdict": "verdict"})
    zero = alt.Chart({"values": [{"zero": 0}]}).mark_rule(color=QUIET, strokeDash=[3, 3])
    bounded = rows.transform_filter("isValid(datum.low)")
    intervals = bounded.mark_rule(strokeWidth=3, opacity=0.45)
    ticks = bounded.mark_tick(thickness=2, size=9, opacity=0.8)
    ends = [ticks.encode(x=f"{end}:Q", **encoding) for end in ("low", "high")]
    known = rows.transform_filter("datum.is_sure").mark_point(
        size=_FOREST_DOT, filled=True, opacity=1
    )
    unknown = rows.transform_filter("!datum.is_sure").mark_point(
        size=_FOREST_DOT, filled=True, fill=PAPER, strokeWidth=1.75, opacity=1
    )
    stroke = alt.Stroke(**{**encoding["color"].to_dict(), "legend": None})
    layers = [
        zero.encode(x="zero:Q"),
        intervals.encode(x="low:Q", x2="high:Q", **encoding),
        *ends,
        unknown.encode(x=axis, stroke=stroke, **tooltip),
        known.encode(x=axis, **encoding, **tooltip),
        _labels_at_right(rows),
    ]
    return layered(layers, height=alt.Step(_STEP))


def _forest_label(row: Sequence[float]) -> str:
    """The change and its interval."""
    change, low, high = row
    decimals = 1 if abs(change) < 99.5 else 0
    text = f"{signed(change, decimals)}%"
    if np.isnan(low):
        return text
    return f"{text}\u2002[{signed(low, decimals)}, {signed(high, decimals)}]"
