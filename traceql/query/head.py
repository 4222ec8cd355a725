"""The head of a query file says what one row is, and declares parameters, columns and chart.

-- One row per kernel name, by total GPU time.
--
-- Use it to find the kernels worth optimising. Durations are summed across streams, so the total
-- may exceed wall time.
-- @param  limit     INTEGER = 20    Rows to return.
-- @values phase     prefill decode mixed
-- @column total_ns  BIGINT   Summed duration, ns.
-- @chart  bar x=total_ns y=name
-- @title  GPU time by kernel
-- @empty  nothing ran on a GPU while the trace was recorded; record while requests are served
"""

import re
from dataclasses import dataclass
from typing import Any

from traceql.errors import QueryInvalid

_PARAM = re.compile(r"(\w+)\s+(\w+)\s*=\s*('[^']*'|\S+)\s*(.*)")
_CHANNEL = re.compile(r"\w+=\S+")
_COLUMN = re.compile(r"(\w+)\s+(\w+)\s+(.*)")
_TAGS = ("param", "values", "column", "chart", "title", "empty")
_RESERVED = {"chart", "database", "format", "help", "queries", "ui"}
_CONVERT: dict[str, type] = {
    "INTEGER": int,
    "BIGINT": int,
    "DOUBLE": float,
    "VARCHAR": str,
    "BOOLEAN": bool,
}


@dataclass(frozen=True)
class Parameter:
    name: str
    type: type
    default: Any
    text: str
    values: tuple[str, ...] = ()  # the allowed values; any value if empty


@dataclass(frozen=True)
class Column:
    name: str
    type: str  # DuckDB's name of the type
    text: str


@dataclass(frozen=True)
class Chart:
    """A kind of chart, and the column of each channel: {"x": "total_ns", "y": "name"}."""

    kind: str
    channels: dict[str, str]
    title: str = ""


@dataclass(frozen=True)
class Head:
    summary: str
    text: str
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    chart: Chart | None
    empty: str = ""  # what it means if there are no rows, and what to do


def parsed_head(name: str, sql: str) -> Head:
    """Parses the comment at the top of a query file.

    Raises:
        QueryInvalid: a line cannot be parsed; the message quotes it.
    """
    prose: list[str] = []
    tags: dict[str, list[str]] = {tag: [] for tag in _TAGS}
    for line in _head_lines(sql):
        if not line.startswith("@"):
            prose.append(line)
            continue
        tag, _, rest = line[1:].partition(" ")
        if tag not in tags:
            raise QueryInvalid(f"{name}: unknown tag in '-- {line}'")
        tags[tag].append(rest.strip())
    values = {
        key: tuple(rest.split()) for key, _, rest in (v.partition(" ") for v in tags["values"])
    }
    parameters = tuple(_parameter(name, line, values) for line in tags["param"])
    columns = tuple(_column(name, line) for line in tags["column"])
    summary, _, text = "\n".join(prose).strip().partition("\n")
    if not summary:
        raise QueryInvalid(f"{name}: the file must begin with a comment that says what one row is")
    chart, empty = _chart(name, tags["chart"], tags["title"]), " ".join(tags["empty"])
    return Head(summary, text.strip(), parameters, columns, chart, empty)


def _head_lines(sql: str) -> list[str]:
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:].strip())
    return lines


def _parameter(query: str, line: str, values: dict[str, tuple[str, ...]]) -> Parameter:
    found = _PARAM.fullmatch(line)
    if not found or found[2] not in _CONVERT:
        raise QueryInvalid(f"{query}: '@param {line}' is not 'name TYPE = default  text'")
    name, type_name, default, text = found.groups()
    convert = _CONVERT[type_name]
    try:
        value = _default(convert, default)
    except (ValueError, KeyError):
        raise QueryInvalid(
            f"{query}: default {default} of {name} is not of type {type_name}"
        ) from None
    if name in _RESERVED:
        raise QueryInvalid(
            f"{query}: a parameter cannot be called {name}, which is an option of every query"
        )
    return Parameter(name, convert, value, text, values.get(name, ()))


def _default(convert: type, text: str) -> Any:
    if text == "NULL":
        return None
    if convert is bool:
        return {"TRUE": True, "FALSE": False}[text]
    return convert(text.strip("'"))


def _column(query: str, line: str) -> Column:
    found = _COLUMN.fullmatch(line)
    if not found:
        raise QueryInvalid(f"{query}: '@column {line}' is not 'name TYPE  text'")
    return Column(*found.groups())


def _chart(query: str, lines: list[str], titles: list[str]) -> Chart | None:
    if not lines or lines[0] == "none":
        return None
    kind, *channels = lines[0].split()
    if not all(_CHANNEL.fullmatch(channel) for channel in channels):
        raise QueryInvalid(f"{query}: '@chart {lines[0]}' is not 'kind channel=column ...'")
    return Chart(kind, dict(channel.split("=", 1) for channel in channels), " ".join(titles))
