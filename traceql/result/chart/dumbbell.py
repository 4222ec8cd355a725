"""Dumbbells: for each row a dot for base and one for new, on one scale, with a line between."""

from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.bar_labels import LETTER, MARGIN, percent, signed
from traceql.result.chart.data import axis_title, chart_of, in_display_units
from traceql.result.chart.encodings import across, beside_labels, hover, row_axis, up_to
from traceql.result.chart.palette import CHANGES, EQUAL, NOT_SURE
from traceql.result.chart.theme import CONFIG, INK, PAPER, ROW_HEIGHT

_MOST_ROWS = 30
_DOT = 55  # square pixels
_EQUAL = 0.005  # relative; a smaller difference has no direction
_KINDS = {"longer": CHANGES["longer"], "shorter": CHANGES["shorter"], "equal": EQUAL}


def dumbbell(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    """The chart; of its channel x the first column is base, the second one new.

    If color is a column of verdicts, only a difference that is sure has the color of its direction.
    """
    y, (base, new) = channels["y"], channels["x"].split(",")
    data, (title,) = in_display_units(table, [base, new])
    data = data.assign(base=data[base], new=data[new], name=data[y].astype(str))
    data = data.dropna(subset=["base", "new"], how="all").head(_MOST_ROWS)
    data["verdict"] = data[channels["color"]] if "color" in channels else ""
    data["kind"] = _kinds(data) if base.endswith("_ns") else "equal"
    data["label"] = [_label(row, base) for row in _records(data)]
    room = beside_labels(data, "name", width)
    letters = data["label"].str.len().max() * LETTER + 4 * MARGIN
    highest = float(data[["base", "new"]].max().max()) or 1.0
    axis = across("base", _axis(base, title), width)
    axis["scale"] = alt.Scale(domain=[0, highest / max(1 - letters / room, 0.4)], nice=False)
    axis["axis"] = up_to(axis["axis"], 1.02 * highest)
    rows = chart_of(data[["name", "base", "new", "kind", "label"]]).encode(
        y=row_axis(data, "name", width, list(data["name"]))
    )
    told = hover({"name": axis_title(y), "base": "base", "new": "new", "label": "change"})
    colour = alt.Color(
        field="kind",
        type="nominal",
        scale=alt.Scale(domain=list(_KINDS), range=list(_KINDS.values())),
        legend=None,
    )
    new_at = alt.X(field="new", type="quantitative")
    line = rows.mark_rule(strokeWidth=2.5, opacity=0.75).encode(
        x=axis, x2=alt.X2(field="new"), color=colour
    )
    before = rows.mark_point(
        size=_DOT, filled=True, fill=PAPER, stroke=EQUAL, strokeWidth=1.75, opacity=1
    ).encode(x=axis, **told)
    after = rows.mark_point(size=_DOT, filled=True, opacity=1).encode(
        x=new_at, color=colour, **told
    )
    labels = rows.mark_text(
        align="right", color=INK, fontSize=CONFIG["axis"]["labelFontSize"]
    ).encode(x=alt.value("width"), text=alt.Text(field="label", type="nominal"))
    chart: alt.LayerChart = alt.LayerChart(layer=[line, before, after, labels]).properties(
        height=alt.Step(ROW_HEIGHT)
    )
    return chart


def _axis(base: str, title: str) -> str:
    """What the axis shows, and which dot is which."""
    unit = title[title.rfind("(") :] if "(" in title else ""
    what = "time in a step" if base.endswith("_ns") else axis_title(base.removeprefix("base_"))
    what = "share of the ceiling" if base.endswith("_pct") else what
    return f"{what} {unit}: \u25cb base, \u25cf new".replace("  ", " ")


def _records(data: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in data.to_dict("records")]


def _kinds(data: pd.DataFrame) -> list[str]:
    return [_kind(row) for row in _records(data.fillna({"base": 0.0, "new": 0.0}))]


def _kind(row: dict[str, Any]) -> str:
    base, new = row["base"], row["new"]
    if abs(new - base) <= _EQUAL * max(base, new) or row["verdict"] in NOT_SURE:
        return "equal"
    return "longer" if new > base else "shorter"


def _label(row: dict[str, Any], column: str) -> str:
    """The relative difference; of percentages, their difference in points."""
    base, new, is_time = row["base"], row["new"], column.endswith("_ns")
    if pd.isna(base) or (is_time and not base):
        return "only new"
    if pd.isna(new) or (is_time and not new):
        return "only base"
    if column.endswith("_pct"):
        return f"{signed(new - base, 1)} points"
    return percent(new / base - 1) if base else ""
