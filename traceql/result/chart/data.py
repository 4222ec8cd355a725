"""The data of a chart: a result's columns in readable units."""

import re
from collections.abc import Sequence

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

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
