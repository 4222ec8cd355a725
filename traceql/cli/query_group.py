"""A group with a command for each query, whose help and options come from the query file."""

from abc import abstractmethod
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click

from traceql.errors import TraceqlError
from traceql.sql.query import Parameter, Query, catalog, query_named
from traceql.util.text import printable


class QueryGroup(click.Group):
    """A group of queries; it needs the option --queries.

    Attributes:
        listed_by: the command that lists the queries, for messages.
    """

    listed_by: ClassVar[str]

    @abstractmethod
    def sections(self, folders: Sequence[Path]) -> Mapping[str, Mapping[str, Query]]:
        """The queries by name, in the sections of the help."""

    @abstractmethod
    def command_of(self, query: Query, folders: Sequence[Path]) -> click.Command: ...

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _folders_first(args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for queries in self._sections(ctx).values() for name in queries]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, queries in self._sections(ctx).items():
            rows = [(query.name, printable(query.head.summary)) for query in queries.values()]
            with formatter.section(title):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        queries = dict(ChainMap(*map(dict, self._sections(ctx).values())))  # the first one wins
        query = query_named(name, queries, listed_by=self.listed_by)
        return self.command_of(query, ctx.params.get("queries", ()))

    def _sections(self, ctx: click.Context) -> Mapping[str, Mapping[str, Query]]:
        return self.sections(ctx.params.get("queries", ()))


def _folders_first(args: Sequence[str]) -> list[str]:
    """Moves `--queries FOLDER` to the front, before the name of the query is looked up."""
    first: list[str] = []
    rest: list[str] = []
    remaining = iter(args)
    for arg in remaining:
        if arg == "--queries":
            first += [arg, *([value] if (value := next(remaining, None)) is not None else [])]
        else:
            (first if arg.startswith("--queries=") else rest).append(arg)
    return first + rest


def query_command(query: Query, run: Callable[..., None]) -> click.Command:
    """The command of a query: its parameters, then the options that decorate `run`."""
    # Click wraps paragraphs, so each item of a list becomes one.
    text = query.head.text.replace("\n- ", "\n\n- ")
    command = click.command(
        query.name,
        params=[_option(parameter) for parameter in query.head.parameters],
        help=printable(f"{query.head.summary}\n\n{text}"),
        # --no-wait stands for the parameter no_wait.
        context_settings={"token_normalize_func": lambda token: token.replace("-", "_")},
    )
    return command(run)


def _option(parameter: Parameter) -> click.Parameter:
    kind: Any = click.IntRange(0) if parameter.is_limit else parameter.type
    if parameter.values:
        kind = click.Choice(parameter.values, case_sensitive=False)
    is_flag = parameter.type is bool
    return click.Option(
        [f"--{parameter.name}", parameter.name],
        type=None if is_flag else kind,
        is_flag=is_flag,
        default=parameter.default,
        show_default=not is_flag and parameter.default is not None,
        help=printable(parameter.meaning),
        shell_complete=complete_ranks if parameter.name == "rank" else None,
    )


def complete_queries(ctx: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """The names of queries, for shell completion."""
    try:
        return [name for name in catalog(ctx.params.get("queries") or ()) if name.startswith(begun)]
    except TraceqlError:
        return []


def complete_ranks(ctx: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """The ranks of the database on the command line, for shell completion."""
    # Click stops at an option without a value, and leaves the arguments unnamed.
    database = ctx.params.get("database") or next(iter(ctx.args), None)
    if database is None:
        return []
    from traceql.database.database import Database

    try:
        with Database(Path(database)) as trace:
            found = trace.select("SELECT CAST(rank AS VARCHAR) AS rank FROM trace ORDER BY rank")
            return [row["rank"] for row in found if row["rank"].startswith(begun)]
    except TraceqlError:
        return []
