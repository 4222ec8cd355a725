"""The points of curves: what is across, which points are joined, and where each one is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from traceql.result.chart.data import axis_title, in_display_units

# The columns of one unit, and their channels.
_CHANNELS = {"value": "y", "low": "low", "high": "high", "fit": "fit", "second": "second"}
QUANTITIES = tuple(_CHANNELS)
_APART = 3.0  # pixels between the points of two series at one place, at most
_MOST_APART = 0.5  # of the distance between two places, all series together


@dataclass(frozen=True)
class Points:
    """What is drawn.

    Attributes:
        rows: columns x, QUANTITIES, series and panel; NaN for what there is not.
        x_title: of what is across.
        y_title: of the quantities.
        series: the names of the series in their order; one without a name if there is only one.
        series_title: what they are; empty if their names say it.
        is_share: whether the quantities are percentages.
    """

    rows: pd.DataFrame
    x_title: str
    y_title: str
    series: Sequence[str]
    series_title: str
    is_share: bool


def points_of(table: pa.Table, channels: Mapping[str, str]) -> Points:
    """The points of a result.

    If all are at one place, and their series are numbers, the numbers are what is across.
    """
    columns = {name: channels.get(channel) for name, channel in _CHANNELS.items()}
    given, (y_title,) = in_display_units(table, [one for one in columns.values() if one])
    x, series = _chosen(given, channels["x"]), _chosen(given, channels.get("color", ""))
    assert x  # or there would be nothing to draw
    given = given.dropna(subset=[x, channels["y"], *([series] if series else [])])
    x_title, is_ordered = axis_title(x), bool(series and _is_number(given[series]))
    if series and is_ordered and given[x].nunique() == 1 and given[series].nunique() > 1:
        x_title = f"{axis_title(series)}, {x_title}: {_plain(given[x].iloc[0])}"
        x, series = series, None
    keys = list(given[series].unique()) if series else [""]
    rows = pd.DataFrame({"x": given[x].astype("float64")})
    for name, column in columns.items():
        rows[name] = given[column] if column else np.nan
    rows["series"] = given[series].map(_plain) if series else ""
    rows["panel"] = given[channels["panel"]].fillna("") if "panel" in channels else ""
    if "name" in channels:
        y_title = _with_name(y_title, str(given[channels["name"]].iloc[0]))
    if rows["second"].notna().any():
        y_title += _told_apart(y_title, axis_title(channels["second"]))
    return Points(
        rows=rows,
        x_title=x_title,
        y_title=y_title,
        series=[_plain(key) for key in (sorted(keys) if is_ordered else keys)],
        series_title=axis_title(series) if series and is_ordered else "",
        is_share=channels["y"].endswith("_pct"),
    )


def places_across(points: Points, width: int) -> pd.Series:
    """Where the points are drawn: those of several series beside each other, not on each other."""
    logs, count = np.log2(np.sort(points.rows["x"].unique())), len(points.series)
    span = float(logs[-1] - logs[0]) or 2.0
    gap = float(np.diff(logs).min()) if len(logs) > 1 else span / 2
    step = min(_APART * span / width, _MOST_APART * gap / count)
    number = points.rows["series"].map({name: n for n, name in enumerate(points.series)})
    places: pd.Series = points.rows["x"] * 2 ** ((number - (count - 1) / 2) * step)
    return places


def _chosen(data: pd.DataFrame, columns: str) -> str | None:
    """Of several columns the one with the most values, then with the most distinct ones."""
    names = [one for one in columns.split(",") if one and data[one].notna().any()]
    most = [(int(data[one].notna().sum()), int(data[one].nunique())) for one in names]
    return names[most.index(max(most))] if names else None


def _is_number(values: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(values))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"


def _with_name(title: str, name: str) -> str:
    """The title with what is measured: "TPOT (ms)", "efficiency of TPOT (%)"."""
    words = name.upper() if len(name) <= len("tpot") else name.replace("_", " ")
    what, bracket, unit = title.partition(" (")
    return f"{what} of {words} (%)" if unit == "%)" else words + bracket + unit


def _told_apart(title: str, second: str) -> str:
    """Which points are what: ": ● all, ○ good" for requests per second and good ones."""
    return f": \u25cf all, \u25cb {second.removesuffix(title).strip()}"
