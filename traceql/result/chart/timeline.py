"""What ran when: timelines with a row per rank, stream or role, and flame graphs of calls.

The rows of a flame graph are trees, the outermost call at the top: each row comes before the rows
inside it, and depth 0 begins a tree.
"""

from typing import Any, cast

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.encodings import (
    across,
    axis_title,
    beside_labels,
    chart_of,
    coloured,
    hover,
    in_display_units,
    row_axis,
)
from traceql.result.chart.theme import AROUND_HOST_EVENTS, HOST_EVENTS, PAPER

_MOST_BARS = 1_000
_PIXELS = 1_600  # of the whole span; bars of one color that begin in one pixel are merged
_BAR_HEIGHT, _THIN = 42, 18  # pixels; many rows are thin
_FEW = 8  # rows
_SEPARABLE = 150  # bars; more than that would vanish behind their outlines
_ROW_HEIGHT, _BETWEEN_TREES = 18, 0.5  # pixels; rows
_MOST_ROWS = 110
_MOST_FRAMES = 4_000
_NARROWEST = 0.4  # pixels; what is narrower cannot be seen
_NARROWEST_LABEL, _MARGIN, _LETTER = 36, 4, 5.8  # pixels
_ON_FRAMES = "#000000"  # frames keep their colors on dark paper, and so does the text on them
# Where a frame begins and ends in the part of the chart that a reader has zoomed into, pixels.
_LEFT, _RIGHT = "max(scale('x', datum.start), 0)", "min(scale('x', datum.end), width)"
_ROOM = f"({_RIGHT} - {_LEFT} - {2 * _MARGIN})"
_TEXT = (
    f"{_ROOM} < {_NARROWEST_LABEL - 2 * _MARGIN} ? ''"
    f" : length(datum.label) * {_LETTER} > {_ROOM} ? datum.short : datum.label"
)


def timeline(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    start, length, y = channels["x"], channels["width"], channels["y"]
    colour = channels.get("color")
    table = table.append_column("end", pc.add(table[start], table[length]))
    data, (title,) = in_display_units(table, [start, "end"])
    data = _visible(data.dropna(subset=[start]), start, y, colour)
    encoding = {
        "x": across(start, title, width),
        "x2": alt.X2(field="end"),
        "y": row_axis(data, y, width),
    }
    encoding |= coloured(data, colour, beside_labels(data, y, width))
    if colour == y:
        encoding["color"].legend = None
        encoding["stroke"] = encoding["color"]  # a kernel of a microsecond is seen by its outline
    names = {y: axis_title(y), start: title, "end": "end"}
    encoding |= hover(names | ({colour: axis_title(colour)} if colour else {}))
    outline = 0.8 if colour == y else 0.5 if len(data) < _SEPARABLE else 0
    bars = chart_of(data).mark_bar(stroke=PAPER, strokeWidth=outline)
    moved = bars.encode(**encoding).interactive(bind_y=False)
    height = _BAR_HEIGHT if data[y].nunique() <= _FEW else _THIN
    drawn: alt.Chart = moved.properties(height=alt.Step(height))
    return drawn


def _visible(data: pd.DataFrame, start: str, y: str, colour: str | None) -> pd.DataFrame:
    """Merges bars of one row and color that begin in the same pixel."""
    columns = list(dict.fromkeys(column for column in (y, colour) if column))
    kept = data[[*columns, start, "end"]]
    if len(kept) <= _MOST_BARS:
        return kept
    pixel = (kept["end"].max() - kept[start].min()) / _PIXELS
    keys = [(kept[start] // pixel).rename("pixel"), *(kept[column] for column in columns)]
    bars = kept.groupby(keys, dropna=False, sort=True).agg({start: "min", "end": "max"})
    return bars.reset_index().drop(columns="pixel")


def flame(table: pa.Table, channels: dict[str, str], width: int) -> alt.Chart:
    frames, unit = _frames(table, channels)
    whole = frames["end"].max()
    frames = _flame_visible(frames, whole / width * _NARROWEST)
    rows = frames["bottom"].max()
    names = {"name": "name", "kind": "kind", "total": f"total {unit}", "own": f"own {unit}"}
    base = chart_of(frames).encode(**hover(names | {"share": "share of the thread"}))
    y = alt.Scale(domain=[0, rows], reverse=True, nice=False)
    rects = base.mark_rect(stroke=PAPER, strokeWidth=0.5, clip=True).encode(
        x=alt.X(
            field="start",
            type="quantitative",
            title=f"time {unit}",
            scale=alt.Scale(domain=[0, whole], nice=False),
            axis=alt.Axis(orient="top", grid=False, tickCount=max(3, width // 90)),
        ),
        x2="end:Q",
        y=alt.Y(field="top", type="quantitative", axis=None, scale=y),
        y2="bottom:Q",
        color=_by_kind(frames),
    )
    labels = base.mark_text(
        align="left", baseline="middle", color=_ON_FRAMES, fontSize=11, clip=True,
        x={"expr": f"{_LEFT} + {_MARGIN}"},
        limit={"expr": f"max(1, {_ROOM})"},
        text={"expr": _TEXT},
    ).encode(y=alt.Y(field="middle", type="quantitative", axis=None, scale=y))  # fmt: skip
    layers = alt.layer(rects.interactive(bind_y=False), labels)
    return cast("alt.Chart", layers.properties(height=rows * _ROW_HEIGHT))


def _frames(table: pa.Table, channels: dict[str, str]) -> tuple[pd.DataFrame, str]:
    """The rows with their places in the drawing, and their unit of time as `(ms)`."""
    start, total, own = (channels[name] for name in ("x", "width", "own"))
    data, (title,) = in_display_units(table, [total, start, own])
    depth = data[channels["y"]]
    tree = (depth == 0).cumsum()
    height = depth.groupby(tree).max() + 1 + _BETWEEN_TREES
    top = depth + tree.map(height.cumsum() - height)
    name = data[channels["text"]]
    frames = pd.DataFrame({
        "name": name,
        "label": name.map(_last_part_first),
        "short": name.map(
            lambda one: _last_part_first(one) if ": " in one else one.rpartition("::")[2]  # aten::
        ),
        "kind": data[channels["color"]],
        "start": data[start],
        "end": data[start] + data[total],
        "total": data[total],
        "own": data[own],
        "share": (data[total] / data[total].groupby(tree).transform("max")).map("{:.2%}".format),
        "top": top,
        "middle": top + 0.5,
        "bottom": top + 1,
    })  # fmt: skip
    return frames, title[title.find("(") :]


def _last_part_first(name: str) -> str:
    """`forward (qwen3.py)` for `qwen3.py: forward`: a short label shows the most specific part."""
    place, colon, part = name.rpartition(": ")
    return f"{part} ({place})" if colon else name


def _flame_visible(frames: pd.DataFrame, narrowest: float) -> pd.DataFrame:
    """The frames that can be seen; if there are too many rows, a last row says so."""
    wide = frames[frames["total"] >= narrowest].nlargest(_MOST_FRAMES, "total")
    shown = wide[wide["bottom"] <= _MOST_ROWS]
    if len(shown) == len(wide):
        return shown
    below, rows = len(wide) - len(shown), shown["bottom"].max()
    note: dict[str, Any] = {
        "label": f"{below:,} more frames below; draw one rank or one phase", "short": "…",
        "name": "", "kind": "smaller", "start": 0.0, "end": frames["end"].max(),
        "total": None, "own": None, "share": None,
        "top": rows, "middle": rows + 0.5, "bottom": rows + 1,
    }  # fmt: skip
    return pd.concat([shown, pd.DataFrame([note])], ignore_index=True)


def _by_kind(frames: pd.DataFrame) -> alt.Color:
    """Each kind in its color; the legend names those that do not say themselves what they are."""
    present = set(frames["kind"])
    colours = {**HOST_EVENTS, **AROUND_HOST_EVENTS}
    return alt.Color(
        field="kind",
        type="nominal",
        scale=alt.Scale(domain=[*colours], range=[*colours.values()]),
        legend=alt.Legend(title=None, values=[kind for kind in HOST_EVENTS if kind in present]),
    )
