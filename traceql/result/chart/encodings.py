"""The rows of charts with their units; how a column is placed, scaled, labeled and colored."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.theme import INK, LABEL_SIZE, PAPER, SEQUENCE, UNKNOWN, colour
from traceql.result.text_table.values import distinct_names
from traceql.util.text import printable, shortened
from traceql.util.units import display_unit

_OF_PATHS = re.compile(r"[.\[\]'\"]")
Drawn = alt.Chart | alt.LayerChart | alt.VConcatChart
COUNTED = ("layer", "number", "iteration")  # columns of numbers from 0
_WORDS = {
    "ts": "time", "gpu_ts": "time", "dur": "duration", "number": "step", "mfu": "MFU", "mbu": "MBU",
    "in_flight": "requests in flight", "gpus": "GPUs",
    "request_rate": "requests arriving per second",
    "tokens_per_second_per_user": "output tokens/s per user",
    "output_tokens_per_second_per_gpu": "output tokens/s per GPU",
}  # fmt: skip
_BACKSLASH = "\u29f5"  # another character of that look
_LONGEST = 500  # letters; of a million, the drawing library measures one after the other


def in_display_units(table: pa.Table, *groups: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The data, with one unit per group of columns, and an axis title for each group."""
    data = table.to_pandas()
    titles = []
    for columns in groups:
        largest = max((abs(pc.max(table[c]).as_py() or 0) for c in columns), default=0)
        unit = display_unit(columns[0], largest)
        titles.append(axis_title(columns[0], unit.symbol if unit else None))
        for column in columns:
            data[column] = data[column].astype("float64") / (unit.divisor if unit else 1)
    return data, titles


def axis_title(column: str, symbol: str | None = None) -> str:
    """The title of a column's axis: `exposed comm (ms)` for `exposed_comm_ns`."""
    plain = display_unit(column, 0)
    name = plain.name if plain else column
    words = _WORDS.get(name, name.replace("_", " "))
    return f"{words} ({symbol})" if symbol else words


def readable(data: pd.DataFrame, column: str | None) -> pd.DataFrame:
    """Booleans in words, for the legend: `throttled` and `not throttled`."""
    if column is None or data[column].dtype != bool:
        return data
    name = axis_title(column)
    return data.assign(**{column: data[column].map({True: name, False: f"not {name}"})})


def field_of(column: str) -> str:
    """A column's name as Vega-Lite reads it, which takes dots and brackets for paths."""
    return _OF_PATHS.sub(r"\\\g<0>", column)


def chart_of(data: pd.DataFrame) -> alt.Chart:
    """A chart with its rows inside, as a plain dict.

    Altair refuses data frames of more than 5,000 rows, and checks every value of its own data
    objects against its schema.
    """
    plain = data.astype(object).where(data.notna(), None)
    rows = [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]
    return alt.Chart({"values": rows})


def with_labels(table: pa.Table) -> pa.Table:
    """The table with short texts and printable names of columns."""
    for place, column in enumerate(table.columns):
        if not pa.types.is_string(column.type):
            continue
        if (pc.max(pc.utf8_length(column)).as_py() or 0) > _LONGEST:
            numbered = column.combine_chunks().dictionary_encode()
            names = [shortened(name, _LONGEST) for name in numbered.dictionary.to_pylist()]
            short = pa.array(distinct_names(names))
            texts = pa.DictionaryArray.from_arrays(numbered.indices, short).cast(pa.string())
            table = table.set_column(place, table.field(place), texts)
    return table.rename_columns([column_label(name) for name in table.column_names])


def with_joined_rows(table: pa.Table, channels: dict[str, str]) -> tuple[pa.Table, dict[str, str]]:
    """One column of texts for a y of several columns: `attn_allreduce, layer 3, step 14`."""
    columns = channels.get("y", "").split(",")
    if len(columns) < 2:
        return table, channels
    name = ", ".join(columns)
    texts = []
    for row in table.select(columns).to_pylist():  # numbers with what they count
        parts = (
            value if isinstance(value, str) else f"{axis_title(column)} {value}"
            for column, value in row.items()
            if value is not None
        )
        texts.append(", ".join(parts) or UNKNOWN)
    return table.append_column(name, pa.array(texts)), channels | {"y": name}


def column_label(name: str) -> str:
    """The name of a column in a chart; Vega-Lite reads no name with a backslash."""
    return printable(name).replace("\\", _BACKSLASH)


def layered(layers: Iterable[alt.Chart], **properties: Any) -> alt.LayerChart:
    """Charts on top of each other, the first one at the bottom."""
    chart: alt.LayerChart = alt.LayerChart(layer=list(layers)).properties(**properties)
    return chart


_LETTER, _SYMBOL = 5.8, 28  # pixels: a letter in a legend, and the symbol and space around the text
_TICK = 90  # pixels between the ticks of an axis
_IN_ORDER = ("rank", "stream", "layer", "gpu")
_LABEL_LETTER = 5.4  # pixels of a letter on an axis
SHARE_OF_LABELS = 1 / 3  # of the width
# Shortened in the middle, because kernels differ at the end; and by letters, because measuring a
# long template name takes a second.
_SHORT_NAME = (
    "datum.value === null ? '{null}' : length(datum.label) <= {letters} ? datum.label"
    " : slice(replace(datum.label, /^void /, ''), 0, {first}) + '…' + slice(datum.label, -{last})"
)
_BINARY_SIZE = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~r') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + ' MiB'"
    " : datum.value >= 1024 ? format(datum.value / 1024, '~r') + ' KiB'"
    " : datum.value + ' B'"
)
_FAINT_BETWEEN_POWERS = {
    "condition": {"test": "abs(log(datum.value) / LN10 % 1) < 1e-6", "value": 0.7},
    "value": 0.15,
}
_LEAST_SPAN = 16  # between the ends of an axis of sizes
_LONGEST_GRADIENT, _SHORTEST_GRADIENT = 160, 60  # pixels
_WIDE = 30  # from this ratio of largest to smallest value on, the scale is logarithmic
LETTER, MARGIN = 5.6, 5  # pixels: of the text at a bar, and between the two


def across(column: str, title: str, width: int, *, log: bool = False) -> alt.X:
    """A quantity on the horizontal axis of that length in pixels; percentages from 0 to 100."""
    return alt.X(**_quantity(column, title, width, log=log))


def upward(column: str, title: str, height: int, *, log: bool = False) -> alt.Y:
    """A quantity on the vertical axis of that height in pixels."""
    return alt.Y(**_quantity(column, title, height, log=log))


def _quantity(column: str, title: str, length: int, *, log: bool = False) -> dict[str, Any]:
    scale: dict[str, Any] = {"type": "log", "nice": True} if log else {}
    if column.endswith("_pct"):
        scale["domain"] = [0, 100]
    grid: Any = _FAINT_BETWEEN_POWERS if log else alt.Undefined
    return {
        "field": field_of(column),
        "type": "quantitative",
        "title": title,
        "scale": alt.Scale(**scale),
        "axis": alt.Axis(tickCount=max(3, length // _TICK), gridOpacity=grid),
    }


def up_to(axis: alt.Axis, greatest: float) -> alt.Axis:
    """The axis with ticks up to a value, beyond which there are texts instead."""
    grid = {"test": f"datum.value <= {greatest}", "value": 0.7}
    axis["gridOpacity"] = {"condition": grid, "value": 0}
    axis["labelExpr"] = f"datum.value <= {greatest} ? datum.label : ''"
    return axis


def sizes(column: str, values: pd.Series) -> alt.X:
    """Bytes on a horizontal axis with powers of two."""
    spare = math.sqrt(max(1, _LEAST_SPAN * values.min() / values.max()))
    return alt.X(
        field=field_of(column),
        type="quantitative",
        title=axis_title(column),
        scale=alt.Scale(
            type="log", base=2, nice=True, domain=[values.min() / spare, values.max() * spare]
        ),
        axis=alt.Axis(labelExpr=_BINARY_SIZE, tickCount=8, labelOverlap=True),
    )


def is_wide(values: pd.Series) -> bool:
    """Whether the values are positive and span several orders of magnitude."""
    smallest, largest = values.min(), values.max()
    return bool(smallest > 0 and largest / smallest > _WIDE)


def row_axis(
    data: pd.DataFrame, column: str, width: int, order: Sequence[Any] | None = None
) -> alt.Y:
    """One row per value: ranks and the like by number, others as they come or in `order`."""
    numbered = pd.api.types.is_numeric_dtype(data[column])
    letters = int(width * SHARE_OF_LABELS / _LABEL_LETTER)
    half = letters // 2
    return alt.Y(
        field=field_of(column),
        type="nominal",
        sort="ascending" if column in _IN_ORDER else order,
        title=axis_title(column) if numbered else None,
        axis=alt.Axis(
            labelLimit=width * SHARE_OF_LABELS,
            labelExpr=_SHORT_NAME.format(null=UNKNOWN, letters=letters, first=half, last=half - 1),
            grid=False,
        ),
    )


def beside_labels(data: pd.DataFrame, column: str, width: int) -> int:
    """The width that the labels of rows leave for bars, and for the legend above these."""
    longest = max(map(len, map(str, data[column])), default=0)
    return int(width - min(longest * _LABEL_LETTER, width * SHARE_OF_LABELS)) - _SYMBOL


def coloured(
    data: pd.DataFrame, column: str | None, width: int, order: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Each value in the color that the palette assigns to it, otherwise in the next free one.

    Args:
        width: that the legend may take, pixels.
    """
    if column is None:
        return {}
    # Numbers are sorted, texts stay as they come.
    distinct = [v.item() if hasattr(v, "item") else v for v in data[column].dropna().unique()]
    are_numbers = all(isinstance(value, int) for value in distinct)
    values = list(order or (sorted(distinct) if are_numbers else distinct))
    own = [colour(value) for value in values]
    free = cycle([one for one in SEQUENCE if one not in own] or SEQUENCE)
    scale = alt.Scale(domain=values, range=[one or next(free) for one in own])
    title = axis_title(column) if any(isinstance(value, int) for value in values) else None
    longest = max((len(str(value)) for value in values), default=0)
    room = width - (len(title) * _LETTER if title else 0)
    columns = max(1, int(room // (longest * _LETTER + _SYMBOL)))
    legend = alt.Legend(title=title, columns=columns, labelLimit=width // 2)
    return {"color": alt.Color(field=field_of(column), type="nominal", scale=scale, legend=legend)}


def gradient(data: pd.DataFrame, rows: str, width: int, title: str) -> alt.Legend:
    """The legend of a continuous scale above the cells; no longer than these are wide."""
    room = beside_labels(data, rows, width) - len(title) * _LETTER - _SYMBOL
    length = min(_LONGEST_GRADIENT, max(room, _SHORTEST_GRADIENT))
    return alt.Legend(title=title, orient="top", gradientLength=length, gradientThickness=8)


def hover(columns: dict[str, str]) -> dict[str, Any]:
    """The tooltip of a mark: fields and their titles."""
    return {
        "tooltip": [alt.Tooltip(field=field_of(f), title=title) for f, title in columns.items()]
    }


@dataclass(frozen=True)
class Area:
    """What a chart shows: the values at both ends of its axis, and the pixels between them."""

    low: float
    high: float
    pixels: float


def beside(bars: pd.DataFrame, area: Area) -> pd.DataFrame:
    """The bars with a place for each label: where, on which side of that, and in which color.

    It is right of the bar, or left of it, or else in it.
    """
    low, high = bars[["start", "end"]].min(axis=1), bars[["start", "end"]].max(axis=1)
    pixel = (area.high - area.low) / area.pixels
    needed = (bars["label"].str.len() * LETTER + 2 * MARGIN) * pixel
    right, left = area.high - high > needed, low - area.low > needed
    return bars.assign(
        at=high.where(right, low.where(left, high)),
        align=right.map({True: "left", False: "right"}),
        ink=(right | left).map({True: INK, False: PAPER}),
    )


def label_marks(base: alt.Chart) -> alt.Chart:
    """The labels of the bars of a chart, where `beside` has placed them."""
    dx = {"expr": f"datum.align === 'left' ? {MARGIN} : -{MARGIN}"}
    texts = base.mark_text(align={"expr": "datum.align"}, dx=dx, fontSize=LABEL_SIZE)
    ink = alt.Color(field="ink", type="nominal", scale=None)
    marks: alt.Chart = texts.encode(x="at:Q", text="label:N", color=ink)
    return marks


def signed(value: float, decimals: int) -> str:
    """A difference as people write it: +1.20 or \u22121.20; without a sign if it looks like 0."""
    rounded = round(value, decimals)
    return f"{rounded:+,.{decimals}f}".replace("-", "\u2212") if rounded else "0"


def percent(share: float) -> str:
    """A relative difference as people write it, with a decimal where that says something."""
    if share >= 9.995:
        return f"\u00d7{1 + share:,.0f}"
    return signed(100 * share, 0 if abs(share) >= 0.0995 else 1) + "%"
