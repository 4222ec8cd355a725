"""What commands that have queries of their own share: --query, --param, --sql and their rows."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from traceql.cli.output import spreadsheet_option, wide_option

if TYPE_CHECKING:
    from traceql.result import Result
    from traceql.sql.query import Query

LIST = "list"  # in place of a name: lists them
_FORMATS = ("table", "json", "csv", "parquet")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Asked(Protocol):
    """What can be asked by the name of a query, or in SQL."""

    def query(self, name: str, /, **parameters: Any) -> "Result": ...

    def sql(self, sql: str, parameters: dict[str, Any] | None = None) -> "Result": ...


def query_options(*, sql: str, json: str) -> Callable[[_Command], _Command]:
    """Adds --query, --param, --sql, --format and how tables look.

    Args:
        sql: what a statement can read.
        json: what json is without --query and --sql.
    """
    options = (
        click.option(
            "--query",
            "query",
            metavar="NAME",
            help="Show the rows of one query instead; list names them.",
        ),
        click.option(
            "--param",
            "params",
            multiple=True,
            metavar="NAME=VALUE",
            help="A parameter of --query.",
        ),
        click.option("--sql", help=f"Show the rows of a statement instead. {sql}"),
        click.option(
            "--format",
            "format_",
            type=click.Choice(_FORMATS),
            default="table",
            show_default=True,
            help=f"Output format, written to stdout. Without --query or --sql, json is {json}.",
        ),
        spreadsheet_option,
        wide_option,
    )

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def list_queries(
    found: "Mapping[str, Query]", *, format_: str, spreadsheet_safe: bool, wide: bool
) -> None:
    """Prints the names of queries, what they answer, and the kind of their chart."""
    import pyarrow as pa

    from traceql.cli.result_output import write_result
    from traceql.result import Result

    rows = [
        {"query": name, "meaning": one.head.summary, "chart": chart.kind if chart else None}
        for name, one in found.items()
        for chart in [one.head.chart]
    ]
    listed = Result(pa.Table.from_pylist(rows))
    write_result(listed, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)


def require_one(query: str | None, sql: str | None) -> None:
    """Refuses --query beside --sql."""
    if query is not None and sql is not None:
        raise click.UsageError("give --query or --sql, not both")


def parameter_values(params: tuple[str, ...]) -> dict[str, str]:
    """The values of --param by name."""
    pairs = [param.partition("=") for param in params]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise click.UsageError(f"--param {wrong[0]} has no value; write NAME=VALUE")
    return {name: value for name, _, value in pairs}


def asked_rows(
    asked: Asked, query: str | None, sql: str | None, params: tuple[str, ...]
) -> "Result":
    """The rows of a query, or of a statement."""
    return asked.query(query, **parameter_values(params)) if query else asked.sql(sql or "")
