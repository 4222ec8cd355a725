"""Difference waterfalls: what leads from the total of one side to that of the other.

The first bar is the total of base, the last one that of new; each bar between them begins where the
one before it ended. Where the totals dwarf the differences, the axis begins later, and says so.
"""

import json
from math import floor, log10
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.bar_labels import Area, beside, label_marks, percent, signed
from traceql.result.chart.data import chart_of
from traceql.result.chart.encodings import SHARE_OF_LABELS, across, beside_labels, coloured, hover
from traceql.result.chart.palette import CHANGES, EQUAL, NOT_SURE, UNKNOWN, VERDICTS
from traceql.result.chart.theme import INK, PAPER, QUIET, ROW_HEIGHT
from traceql.util.units import display_unit

BASE, NEW = "base", "new"
_MOST_BARS = 14
_SMALL = 0.015  # of the largest difference; smaller ones share a bar
_CUT_ABOVE = 1.8  # from this ratio of the totals to the range of the differences on
_ROOM = 0.3  # of that range, before it and after it, for the totals and their labels
_NOTHING = 0.002  # of the total: smaller differences are not magnified
_NARROW = 450  # pixels; a chart of less has no room for percentages
_THICK = 0.76  # height of a bar in its row
_TOLD = {
    "name": "part", "label": "change", "said_base": "base", "said_new": "new", "verdict": "verdict",
}  # fmt: skip
_BREAK = "M-0.5,1.1L0.1,-1.1M0.1,1.1L0.7,-1.1"  # two strokes: here a part of the bar is left out


def difference(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    """The chart; its channels are x (differences), y, base, new and, if there is one, verdict."""
    rows = _rows(table, channels)
    unit = display_unit(channels["base"], max(rows["base"].sum(), rows["new"].sum()))
    divisor, symbol = (unit.divisor, unit.symbol) if unit else (1, "")
    bars = _bars(rows.assign(**{name: rows[name] / divisor for name in ("base", "new", "delta")}))
    low, high, is_cut = _ends(bars)
    room = beside_labels(bars, "name", width)
    bars["start"] = bars["start"].clip(lower=low)
    bars = beside(_labelled(bars, symbol, is_narrow=width < _NARROW), Area(low, high, room))
    title = f"time of a step ({symbol})" if symbol else "total"
    if is_cut:
        title += f", from {low:,.{_decimals(high - low)}f} {symbol} on"
    axis = across("start", title, width)
    axis["scale"] = alt.Scale(domain=[low, high], nice=False, zero=False)
    base = chart_of(bars).encode(y=_row(bars, width))
    seams = (
        base.transform_filter("isValid(datum.next)")
        .mark_rule(color=QUIET, strokeWidth=0.75)
        .encode(x=alt.X(field="end", type="quantitative"), y2=alt.Y2(field="next"))
    )
    drawn = base.mark_bar(height=alt.RelativeBandSize(band=_THICK)).encode(
        x=axis, x2=alt.X2(field="end"), **_colours(bars, room), **hover(_TOLD)
    )
    labels = label_marks(base)
    layers = [seams, drawn, labels, *([_break(base)] if is_cut else [])]
    chart: alt.LayerChart = alt.LayerChart(layer=layers).properties(height=alt.Step(ROW_HEIGHT))
    return chart


def _rows(table: pa.Table, channels: dict[str, str]) -> pd.DataFrame:
    """The rows with columns of known names."""
    data = table.to_pandas()
    verdict = data[channels["verdict"]] if "verdict" in channels else None
    return pd.DataFrame(
        {
            "name": data[channels["y"]].fillna(UNKNOWN).astype(str),
            "base": data[channels["base"]].fillna(0).astype("float64"),
            "new": data[channels["new"]].fillna(0).astype("float64"),
            "delta": data[channels["x"]].fillna(0).astype("float64"),
            "verdict": None if verdict is None else verdict,
        }
    )


def _bars(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per bar: both totals, and between them the differences, the small ones as one."""
    parts = _parts(rows)
    base, new = rows["base"].sum(), rows["new"].sum()
    end = base + parts["delta"].cumsum()
    floating = parts.assign(start=end - parts["delta"], end=end)
    totals = [
        {"name": name, "base": base, "new": new, "delta": value - base, "start": 0.0, "end": value}
        for name, value in ((BASE, base), (NEW, new))
    ]
    bars = pd.concat(
        [pd.DataFrame(totals[:1]), floating, pd.DataFrame(totals[1:])], ignore_index=True
    )
    bars["kind"] = [BASE, *floating["kind"], NEW]
    bars["row"] = bars.index
    bars["next"] = bars.index.to_series().shift(-1)
    bars["total"] = base
    return bars


def _parts(rows: pd.DataFrame) -> pd.DataFrame:
    changed = rows[rows["delta"] != 0]
    order = changed["delta"].abs().sort_values(ascending=False, kind="stable").index
    changed = changed.loc[order].reset_index(drop=True)
    small = changed["delta"].abs() < _SMALL * changed["delta"].abs().max()
    small |= changed.index >= _MOST_BARS
    if small.sum() > 1:
        others = changed[small]
        rest = {name: others[name].sum() for name in ("base", "new", "delta")}
        verdict = NOT_SURE[-1] if others["verdict"].isin(NOT_SURE).any() else None
        folded = pd.DataFrame([rest | {"name": f"{len(others)} others", "verdict": verdict}])
        changed = pd.concat([changed[~small], folded], ignore_index=True)
    longer = changed["delta"].gt(0).map({True: "longer", False: "shorter"})
    return changed.assign(kind=longer.where(~_is_open(changed), longer + ", not sure"))


def _is_open(bars: pd.DataFrame) -> "pd.Series[bool]":
    """Whether a change may be chance; with one run a side, no bar says."""
    verdict = bars["verdict"]
    is_open = verdict.isin(NOT_SURE)
    return is_open | verdict.isna() if verdict.isin((*NOT_SURE, *VERDICTS)).any() else is_open


def _ends(bars: pd.DataFrame) -> tuple[float, float, bool]:
    """Both ends of the axis, and whether it begins after 0."""
    ends = bars["end"]
    span = float(ends.max() - ends.min())
    is_cut = float(ends.min()) > _CUT_ABOVE * span > _CUT_ABOVE * _NOTHING * float(ends.max())
    span = span if is_cut else float(ends.max()) or 1.0
    low = float(ends.min()) - _ROOM * span if is_cut else min(0.0, float(ends.min()))
    step = 10 ** floor(log10(span)) / 2
    room = _ROOM * (span if is_cut else span / 2)
    return (low // step * step if is_cut else low), float(ends.max()) + room, is_cut


def _decimals(span: float) -> int:
    """As many as tell a hundredth of the span."""
    return min(max(2 - floor(log10(span)), 0), 3) if span > 0 else 0


def _labelled(bars: pd.DataFrame, symbol: str, *, is_narrow: bool) -> pd.DataFrame:
    """The totals with their values, the differences with a sign and their part of base's total."""
    decimals = _decimals(float(bars["delta"].abs().max()))
    whole = max(decimals, 2 if bars["total"].max() < 100 else 0)

    def said(value: float, places: int) -> str:
        return f"{value:,.{places}f} {symbol}".rstrip()

    def label(kind: str, value: float, end: float, total: float) -> str:
        share = f"\u2002{percent(value / total)}" if total else ""
        if kind in (BASE, NEW):
            return said(end, whole) + (share if kind == NEW else "")
        return f"{signed(value, decimals)} {symbol}{'' if is_narrow else share}"

    values = zip(bars["kind"], bars["delta"], bars["end"], bars["total"], strict=True)
    return bars.assign(
        label=[label(*each) for each in values],
        said_base=[said(value, whole) for value in bars["base"]],
        said_new=[said(value, whole) for value in bars["new"]],
    )


def _row(bars: pd.DataFrame, width: int) -> alt.Y:
    """A row per bar, because a role may be called base or new."""
    names = json.dumps(bars["name"].tolist())
    axis = alt.Axis(
        labelExpr=f"{names}[datum.value]", labelLimit=width * SHARE_OF_LABELS, grid=False
    )
    return alt.Y(field="row", type="ordinal", title=None, axis=axis)


def _colours(bars: pd.DataFrame, room: int) -> dict[str, Any]:
    """The totals as gray as axes; the legend has the kinds of differences that there are."""
    encoding = coloured(bars, "kind", room)
    scale, legend = encoding["color"]["scale"], encoding["color"]["legend"]
    scale["range"] = [
        {BASE: EQUAL, NEW: INK}.get(kind) or CHANGES[kind] for kind in scale["domain"]
    ]
    legend["values"] = [kind for kind in CHANGES if kind in set(bars["kind"])]
    if not legend["values"]:
        encoding["color"]["legend"] = None
    return encoding


def _break(base: alt.Chart) -> alt.Chart:
    """Two strokes through the beginning of the totals."""
    cut: alt.Chart = (
        base.transform_filter(f"datum.kind === '{BASE}' || datum.kind === '{NEW}'")
        .mark_point(shape=_BREAK, size=260, filled=False, stroke=PAPER, strokeWidth=2.5, opacity=1)
        .encode(x=alt.value(12))
    )
    return cut
