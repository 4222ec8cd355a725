"""Waterfalls: bars of which each begins where the one before it ended.

`waterfall` shows what a total is made of. The rows come in the order of the bars, and their values,
of which some may be negative, add up to the total, which is the first bar. Several totals, such as
those of phases, stand below each other and are equally long. A column `scale` has the greatest
value of the axis, so that several charts compare.

`difference` shows what leads from the total of base, the first bar, to that of new, the last one.
Where the totals dwarf the differences, the axis begins later, and its title says so.
"""

import json
from math import floor, log10
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa

from traceql.result.chart.encodings import (
    SHARE_OF_LABELS,
    Area,
    across,
    axis_title,
    beside,
    beside_labels,
    chart_of,
    coloured,
    hover,
    in_display_units,
    label_marks,
    layered,
    percent,
    signed,
)
from traceql.result.chart.theme import (
    CHANGES,
    EQUAL,
    INK,
    NOT_SURE,
    PAPER,
    QUIET,
    ROW_HEIGHT,
    UNKNOWN,
    VERDICTS,
)
from traceql.util.units import display_unit

_THICK, _NEGATIVE = 0.76, 0.5  # height of a bar in its row; opacity of what was saved
_EXTENT = 125  # pixels: of the labels of rows, where several charts have one scale
_MANY = 100  # from here on, decimals do not matter
TOTAL = "total"
_SMALL, _SMALL_OF_SEVERAL = 0.01, 0.03  # of the total; smaller parts of one kind share a bar
_UNSEEN = 0.0005  # of the total; smaller bars are left out

BASE, NEW = "base", "new"
_MOST_BARS = 14
_SMALL_CHANGE = 0.015  # of the largest difference; smaller ones share a bar
_CUT_ABOVE = 1.8  # from this ratio of the totals to the range of the differences on
_ROOM = 0.3  # of that range, before it and after it, for the totals and their labels
_NOTHING = 0.002  # of the total: smaller differences are not magnified
_NARROW = 450  # pixels; a chart of less has no room for percentages
_TOOLTIP = {
    "name": "part", "label": "change", "base_text": "base", "new_text": "new", "verdict": "verdict",
}  # fmt: skip
_BREAK = "M-0.5,1.1L0.1,-1.1M0.1,1.1L0.7,-1.1"  # two strokes: here a part of the bar is left out


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
    unit, decimals = title[title.rfind("(") + 1 : -1], 0 if bars["total"].max() >= _MANY else 2
    values = zip(bars["value"], bars["total"], strict=True)
    bars = beside(bars.assign(label=[_format_bar(*each, unit, decimals) for each in values]), area)
    start = across("start", title if bars["group"].nunique() == 1 else "share (%)", width)
    start["scale"] = alt.Scale(domain=[area.low, area.high], nice=False)
    row = _row(bars, width)
    if scale:  # labels of one width, so that bars of one length are equally long in all charts
        extent = min(width * SHARE_OF_LABELS, _EXTENT)
        row["axis"].minExtent = row["axis"].maxExtent = row["axis"].labelLimit = extent
    base = chart_of(bars).encode(y=row)
    names = {"name": axis_title(y), "kind": axis_title(colour), "label": title}
    drawn = base.mark_bar(
        height=alt.RelativeBandSize(band=_THICK),
        opacity={"expr": f"datum.value < 0 ? {_NEGATIVE} : 1"},
    ).encode(x=start, x2="end:Q", **_colours(bars, room), **hover(names))
    layers = [_seams(base, "datum.has_next"), drawn, label_marks(base)]
    return layered(layers, height=alt.Step(ROW_HEIGHT))


def _seams(base: alt.Chart, has_next: str) -> alt.Chart:
    """The lines from the end of a bar to the next one."""
    rules = base.transform_filter(has_next).mark_rule(color=QUIET, strokeWidth=0.75)
    seams: alt.Chart = rules.encode(x="end:Q", y2="next:Q")
    return seams


def _row(bars: pd.DataFrame, width: int) -> alt.Y:
    """A row per bar: bars of two groups may have one name, and a role may be called base or new."""
    names = json.dumps(bars["name"].tolist())
    limit = width * SHARE_OF_LABELS
    axis = alt.Axis(labelExpr=f"{names}[datum.value]", labelLimit=limit, grid=False)
    return alt.Y(field="row", type="ordinal", title=None, axis=axis)


def _format_bar(value: float, total: float, unit: str, decimals: int) -> str:
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


def waterfall_bars(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per bar: where it starts and ends, and the row of the bar that begins there.

    Bars of several groups start and end in percent of the group's total.
    """
    groups = rows.dropna(subset=["value"]).groupby("group", sort=False)
    least = _SMALL if len(groups) == 1 else _SMALL_OF_SEVERAL
    bars = pd.concat(
        [_placed(str(group), _parts(own, least)) for group, own in groups], ignore_index=True
    )
    bars = bars.assign(
        row=bars.index, next=bars.index.to_series().shift(-1).where(bars["has_next"])
    )
    if len(groups) > 1:
        bars[["start", "end"]] = bars[["start", "end"]].mul(100 / bars["total"], axis=0)
    return bars


def _placed(group: str, parts: pd.DataFrame) -> pd.DataFrame:
    end, total = parts["value"].cumsum(), parts["value"].sum()
    seen = parts.assign(start=end - parts["value"])[parts["value"].abs() > _UNSEEN * abs(total)]
    whole = pd.DataFrame({"kind": [TOTAL], "name": [group], "value": [total], "start": [0.0]})
    bars = pd.concat([whole.assign(has_next=False), seen.assign(has_next=True)], ignore_index=True)
    bars.loc[len(bars) - 1, "has_next"] = False
    return bars.assign(end=bars["start"] + bars["value"], total=total, group=group)


def _parts(rows: pd.DataFrame, least: float) -> pd.DataFrame:
    """One row per part with a value; of each kind the small ones are one, after the others.

    It has the name of the kind if that has no other parts.
    """
    rows = rows.assign(name=rows["name"].fillna(rows["kind"]))
    parts = _summed(rows)
    small = (parts["value"].abs() < least * abs(parts["value"].sum())) & (
        parts["name"] != parts["kind"]
    )
    together = small.groupby(parts["kind"]).transform("sum")
    small &= together > 1
    order = {kind: place for place, kind in enumerate(parts["kind"].unique())}
    others = together.map("{} others".format)
    others = others.where(together < parts.groupby("kind")["name"].transform("size"), parts["kind"])
    named = parts.assign(name=parts["name"].where(~small, others))
    return _summed(pd.concat([named[~small], named[small]])).sort_values(
        "kind", key=lambda kinds: kinds.map(order), kind="stable", ignore_index=True
    )


def _summed(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.groupby(["kind", "name"], as_index=False, sort=False)[["value"]].sum()


def difference(table: pa.Table, channels: dict[str, str], width: int) -> alt.LayerChart:
    """The chart; its channels are x (differences), y, base, new and, if there is one, verdict."""
    data = table.to_pandas()
    sums = {"base": "base", "new": "new", "delta": "x"}
    rows = pd.DataFrame(
        {name: data[channels[x]].fillna(0).astype("float64") for name, x in sums.items()}
    )
    rows["name"] = data[channels["y"]].fillna(UNKNOWN).astype(str)
    rows["verdict"] = data[channels["verdict"]] if "verdict" in channels else None
    unit = display_unit(channels["base"], max(rows["base"].sum(), rows["new"].sum()))
    divisor, symbol = (unit.divisor, unit.symbol) if unit else (1, "")
    bars = _bars(rows.assign(**{name: rows[name] / divisor for name in ("base", "new", "delta")}))
    low, high, is_cut = _ends(bars)
    room = beside_labels(bars, "name", width)
    bars["start"] = bars["start"].clip(lower=low)
    bars = beside(
        _labelled_differences(bars, symbol, is_narrow=width < _NARROW), Area(low, high, room)
    )
    title = f"time of a step ({symbol})" if symbol else "total"
    if is_cut:
        title += f", from {low:,.{_decimals(high - low)}f} {symbol} on"
    axis = across("start", title, width)
    axis["scale"] = alt.Scale(domain=[low, high], nice=False, zero=False)
    base = chart_of(bars).encode(y=_row(bars, width))
    drawn = base.mark_bar(height=alt.RelativeBandSize(band=_THICK)).encode(
        x=axis, x2="end:Q", **_difference_colours(bars, room), **hover(_TOOLTIP)
    )
    layers = [_seams(base, "isValid(datum.next)"), drawn, label_marks(base)]
    if is_cut:  # two strokes through the beginning of the totals
        totals = base.transform_filter(f"datum.kind === '{BASE}' || datum.kind === '{NEW}'")
        look: dict[str, Any] = {
            "shape": _BREAK,
            "size": 260,
            "filled": False,
            "stroke": PAPER,
            "opacity": 1,
        }
        layers.append(totals.mark_point(**look, strokeWidth=2.5).encode(x=alt.value(12)))
    return layered(layers, height=alt.Step(ROW_HEIGHT))


def _bars(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per bar: both totals, and between them the differences, the small ones as one."""
    parts = _changed_parts(rows)
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


def _changed_parts(rows: pd.DataFrame) -> pd.DataFrame:
    changed = rows[rows["delta"] != 0]
    order = changed["delta"].abs().sort_values(ascending=False, kind="stable").index
    changed = changed.loc[order].reset_index(drop=True)
    small = changed["delta"].abs() < _SMALL_CHANGE * changed["delta"].abs().max()
    small |= changed.index >= _MOST_BARS
    if small.sum() > 1:
        others = changed[small]
        rest = {name: others[name].sum() for name in ("base", "new", "delta")}
        verdict = NOT_SURE[-1] if others["verdict"].isin(NOT_SURE).any() else None
        folded = pd.DataFrame([rest | {"name": f"{len(others)} others", "verdict": verdict}])
        changed = pd.concat([changed[~small], folded], ignore_index=True)
    longer = changed["delta"].gt(0).map({True: "longer", False: "shorter"})
    verdicts = changed["verdict"]  # unknown with one run on each side
    is_open = verdicts.isin(NOT_SURE)
    if verdicts.isin((*NOT_SURE, *VERDICTS)).any():
        is_open |= verdicts.isna()
    return changed.assign(kind=longer.where(~is_open, longer + ", not sure"))


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
    """As many as show a hundredth of the span."""
    return min(max(2 - floor(log10(span)), 0), 3) if span > 0 else 0


def _labelled_differences(bars: pd.DataFrame, symbol: str, *, is_narrow: bool) -> pd.DataFrame:
    """The totals with their values, the differences with a sign and their part of base's total."""
    decimals = _decimals(float(bars["delta"].abs().max()))
    whole = max(decimals, 2 if bars["total"].max() < 100 else 0)

    def with_unit(value: float, places: int) -> str:
        return f"{value:,.{places}f} {symbol}".rstrip()

    def label(kind: str, value: float, end: float, total: float) -> str:
        share = f"\u2002{percent(value / total)}" if total else ""
        if kind in (BASE, NEW):
            return with_unit(end, whole) + (share if kind == NEW else "")
        return f"{signed(value, decimals)} {symbol}{'' if is_narrow else share}"

    values = zip(bars["kind"], bars["delta"], bars["end"], bars["total"], strict=True)
    return bars.assign(
        label=[label(*each) for each in values],
        base_text=[with_unit(value, whole) for value in bars["base"]],
        new_text=[with_unit(value, whole) for value in bars["new"]],
    )


def _difference_colours(bars: pd.DataFrame, room: int) -> dict[str, Any]:
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
