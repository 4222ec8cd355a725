"""Queries: their files, in queries/ and in the folders of the user, their heads and parameters.

The head of a query file describes one row, and declares parameters, columns and chart:

-- One row per kernel name, by total GPU time.
--
-- Use it to find the kernels worth optimising. Durations are summed across streams, so the total
-- may exceed wall time.
-- @param  limit     INTEGER = 20    Rows to return.
-- @values phase     prefill decode mixed
-- @range  batch     1 1024
-- @column total_ns  BIGINT   Summed duration, ns.
-- @key    name total_ns
-- @chart  bar x=total_ns y=name
-- @title  GPU time by kernel
-- @empty  nothing ran on a GPU while the trace was recorded; record while requests are served

A query over a comparison (queries/diff) names the sides whose databases it reads:

-- @reads  base new
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

from traceql.errors import QueryInvalid, QueryNotFound
from traceql.util.resources import QUERIES
from traceql.util.text import Column, comment_head, described_columns, source_text, suggestion

_VALUE = re.compile(r"'[^']*'|\S+")
_PARAM = re.compile(r"(\w+)\s+(\w+)\s*=\s*('[^']*'|\S+)\s*(.*)")
_CHANNEL = re.compile(r"\w+=\S+")
_TAGS = ("param", "values", "range", "column", "key", "chart", "title", "empty", "reads")
LIMIT = "limit"  # the parameter that is the greatest number of rows; 0 for all of them
_RANGE = re.compile(r"(\w+)\s+(-?\d+)\s+(-?\d+)")
_RESERVED = {
    *("chart", "database", "format", "help", "lake", "queries", "spreadsheet_safe", "ui", "where"),
    "wide",
}
_CONVERT: dict[str, type] = {
    "INTEGER": int,
    "BIGINT": int,
    "DOUBLE": float,
    "VARCHAR": str,
    "BOOLEAN": bool,
}
VARIABLE = "TRACEQL_QUERIES"  # the user's own folders, separated as in PATH


@dataclass(frozen=True)
class Parameter:
    name: str
    type: type
    default: Any
    text: str
    values: tuple[str, ...] = ()  # the allowed values; any value if empty
    range: tuple[int, int] | None = None  # the least and the greatest allowed number

    @property
    def is_limit(self) -> bool:
        return self.name == LIMIT

    @property
    def is_pattern(self) -> bool:
        return "regular expression" in self.text

    @property
    def meaning(self) -> str:
        """The text, with what holds for every parameter of this name, and the range."""
        if self.range:
            return f"{self.text} From {self.range[0]:,} to {self.range[1]:,}."
        return f"{self.text.removesuffix('.')}; 0 for all." if self.is_limit else self.text


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
    keys: tuple[str, ...]  # the columns that tables show in any case, the most important first
    chart: Chart | None
    empty: str = ""  # what it means if there are no rows, and what to do
    reads: tuple[str, ...] = ()  # the sides of a comparison whose databases it reads


def parsed_head(name: str, sql: str) -> Head:
    """Parses the comment at the top of a query file.

    Raises:
        QueryInvalid: a line cannot be parsed; the message quotes it.
    """
    head = comment_head(name, sql, _TAGS)
    tags = head.tags
    values = {
        key: tuple(value.strip("'") for value in _VALUE.findall(rest))
        for key, _, rest in (v.partition(" ") for v in tags["values"])
    }
    ranges = {}
    for line in tags["range"]:
        if not (found := _RANGE.fullmatch(line)):
            raise QueryInvalid(f"{name}: '@range {line}' is not 'name least greatest'")
        ranges[found[1]] = int(found[2]), int(found[3])
    parameters = tuple(_parameter(name, line, values, ranges) for line in tags["param"])
    columns = described_columns(name, head)
    chart, empty = _chart(name, tags["chart"], tags["title"]), head.only("empty")
    keys, reads = head.names("key"), head.names("reads")
    return Head(head.summary, head.text, parameters, columns, keys, chart, empty, reads)


def _parameter(
    query: str, line: str, values: dict[str, tuple[str, ...]], ranges: dict[str, tuple[int, int]]
) -> Parameter:
    found = _PARAM.fullmatch(line)
    if not found or found[2] not in _CONVERT:
        raise QueryInvalid(f"{query}: '@param {line}' is not 'name TYPE = default  text'")
    name, type_name, default, text = found.groups()
    convert = _CONVERT[type_name]
    try:
        if default == "NULL":
            value = None
        elif convert is bool:
            value = {"TRUE": True, "FALSE": False}[default]
        else:
            value = convert(default.strip("'"))
    except (ValueError, KeyError):
        raise QueryInvalid(
            f"{query}: default {default} of {name} is not of type {type_name}"
        ) from None
    if name in _RESERVED:
        raise QueryInvalid(
            f"{query}: a parameter cannot be called {name}, which is an option of every query"
        )
    return Parameter(name, convert, value, text, values.get(name, ()), ranges.get(name))


def _chart(query: str, lines: Sequence[str], titles: Sequence[str]) -> Chart | None:
    if not lines or lines[0] == "none":
        return None
    kind, *channels = lines[0].split()
    if not all(_CHANNEL.fullmatch(channel) for channel in channels):
        raise QueryInvalid(f"{query}: '@chart {lines[0]}' is not 'kind channel=column ...'")
    return Chart(kind, dict(channel.split("=", 1) for channel in channels), " ".join(titles))


@dataclass(frozen=True)
class Query:
    """A query file. Its name is the file's without suffix: `kernels.top` for `kernels.top.sql`."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".sql")

    @cached_property
    def sql(self) -> str:
        return source_text(self.path)

    @cached_property
    def head(self) -> Head:
        return parsed_head(self.name, self.sql)


def catalog(folders: Sequence[Path] = ()) -> dict[str, Query]:
    """All queries by name. A user's query replaces a built-in one of the same name.

    Args:
        folders: the user's own, in addition to those in the environment variable TRACEQL_QUERIES.

    Raises:
        QueryNotFound: a folder does not exist.
    """
    from_environment = [Path(p) for p in os.environ.get(VARIABLE, "").split(os.pathsep) if p]
    found: dict[str, Query] = {}
    for folder in (QUERIES, *from_environment, *folders):
        if not folder.is_dir():
            raise QueryNotFound(
                f"folder of queries {folder} does not exist; correct --queries or TRACEQL_QUERIES"
            )
        found |= queries_in(folder)
    return dict(sorted(found.items()))


def shipped_queries() -> dict[str, Query]:
    """The queries that come with traceql, without those of the user."""
    return queries_in(QUERIES)


def queries_in(folder: Path) -> dict[str, Query]:
    """The queries in a folder, without those in its subfolders."""
    files = [file for file in sorted(folder.glob("*.sql")) if file.is_file()]
    return {query.name: query for query in map(Query, files)}


def query_named(
    name: str, queries: dict[str, Query], *, listed_by: str = "traceql queries"
) -> Query:
    """The query of that name.

    Args:
        listed_by: the command that lists them.

    Raises:
        QueryNotFound: the message suggests names that are close.
    """
    if name in queries:
        return queries[name]
    hint = suggestion(name, queries) or f"list them with {listed_by}"
    raise QueryNotFound(f"no query '{name}'; {hint}")


def bound(query: Query, given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each parameter of the query; a limit of 0 is NULL, which limits nothing.

    Raises:
        QueryInvalid: an unknown parameter, or a value of the wrong type or that is not allowed.
    """
    known = {parameter.name: parameter for parameter in query.head.parameters}
    for name in given:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise QueryInvalid(f"{query.name} has no parameter '{name}' (it has: {listed})")
    return {
        name: _value(query, parameter, given.get(name, parameter.default))
        for name, parameter in known.items()
    }


def _value(query: Query, parameter: Parameter, value: Any) -> Any:
    if value is None:
        return None
    if parameter.values and value not in parameter.values:
        raise QueryInvalid(
            f"{query.name}: {parameter.name} is '{value}'; use one of {', '.join(parameter.values)}"
        )
    try:
        converted = _converted(parameter.type, value)
    except (TypeError, ValueError):
        expected = parameter.type.__name__
        raise QueryInvalid(
            f"{query.name}: {parameter.name} is '{value}', not of type {expected}"
        ) from None
    if parameter.range and not parameter.range[0] <= converted <= parameter.range[1]:
        least, greatest = parameter.range
        raise QueryInvalid(
            f"{query.name}: {parameter.name} is {value}; "
            f"give a number from {least:,} to {greatest:,}"
        )
    if parameter.is_pattern and not converted:
        raise QueryInvalid(
            f"{query.name}: {parameter.name} is empty, which every name matches; give a part of a "
            "name, or leave it out"
        )
    if parameter.is_pattern:
        try:
            duckdb.execute("SELECT regexp_matches('', $pattern)", {"pattern": converted})
        except duckdb.InvalidInputException as error:
            wrong = str(error).removeprefix("Invalid Input Error: ")
            raise QueryInvalid(
                f"{query.name}: {parameter.name} is '{value}', which is not a regular expression: "
                f"{wrong}"
            ) from None
    return None if parameter.is_limit and converted == 0 else converted


def _converted(type_: type, value: Any) -> Any:
    """The value converted without loss: 2.7 is not an integer, "false" is not a boolean."""
    converted = type_(value)
    if type_ is str or (isinstance(value, str) and type_ is not bool) or converted == value:
        return converted
    raise ValueError(value)
