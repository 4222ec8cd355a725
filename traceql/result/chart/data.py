"""The data of a chart: a result's columns in readable units, with names that can be drawn."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.theme import UNKNOWN
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
        if pa.types.is_string(column.type) and _longest(column) > _LONGEST:
            table = table.set_column(place, table.field(place), _short(column))
    return table.rename_columns([column_label(name) for name in table.column_names])


def with_joined_rows(table: pa.Table, channels: dict[str, str]) -> tuple[pa.Table, dict[str, str]]:
    """One column of texts for a y of several columns: `attn_allreduce, layer 3, step 14`."""
    columns = channels.get("y", "").split(",")
    if len(columns) < 2:
        return table, channels
    name = ", ".join(columns)
    texts = [_joined(dict(zip(columns, row, strict=True))) for row in _rows(table, columns)]
    return table.append_column(name, pa.array(texts)), channels | {"y": name}


def column_label(name: str) -> str:
    """The name of a column in a chart; Vega-Lite reads no name with a backslash."""
    return printable(name).replace("\\", _BACKSLASH)


def _rows(table: pa.Table, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[column].to_pylist() for column in columns), strict=True)


def _joined(row: dict[str, Any]) -> str:
    """The values that there are; numbers with what they count. Unknown if there is none."""
    parts = (
        value if isinstance(value, str) else f"{axis_title(column)} {value}"
        for column, value in row.items()
        if value is not None
    )
    return ", ".join(parts) or UNKNOWN


def _longest(column: pa.ChunkedArray) -> int:
    return pc.max(pc.utf8_length(column)).as_py() or 0


def _short(column: pa.ChunkedArray) -> pa.Array:
    numbered = column.combine_chunks().dictionary_encode()
    names = distinct_names([shortened(name, _LONGEST) for name in numbered.dictionary.to_pylist()])
    return pa.DictionaryArray.from_arrays(numbered.indices, pa.array(names)).cast(pa.string())


def layered(layers: Iterable[alt.Chart], **properties: Any) -> alt.LayerChart:
    """Charts on top of each other, the first one at the bottom."""
    chart: alt.LayerChart = alt.LayerChart(layer=list(layers)).properties(**properties)
    return chart
