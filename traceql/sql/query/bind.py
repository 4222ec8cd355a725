"""Binds the values that the user gave to a query's parameters."""

from collections.abc import Mapping
from typing import Any

import duckdb

from traceql.errors import QueryInvalid
from traceql.sql.query.catalog import Query
from traceql.sql.query.head import Parameter


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
    if parameter.is_pattern and (wrong := _fault(converted)):
        raise QueryInvalid(
            f"{query.name}: {parameter.name} is '{value}', which is no regular expression: {wrong}"
        )
    return None if parameter.is_limit and converted == 0 else converted


def _fault(pattern: str) -> str | None:
    """What is wrong with a regular expression; None if DuckDB can use it."""
    try:
        duckdb.execute("SELECT regexp_matches('', $pattern)", {"pattern": pattern})
    except duckdb.InvalidInputException as error:
        return str(error).removeprefix("Invalid Input Error: ")
    return None


def _converted(type_: type, value: Any) -> Any:
    """The value converted without loss: 2.7 is not an integer, "false" is not a boolean."""
    converted = type_(value)
    if type_ is str or (isinstance(value, str) and type_ is not bool) or converted == value:
        return converted
    raise ValueError(value)
