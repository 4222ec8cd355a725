"""A group with a command for each query, whose options come from the head of the query file."""

from abc import abstractmethod
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import click

from traceql.cli.query_options import help_text, option
from traceql.sql.query import Query, query_named
from traceql.util.printable import printable


class QueryGroup(click.Group):
    """A subcommand for each query. The group has the option --queries.

    Attributes:
        listed_by: the command that lists the queries.
    """

    listed_by: ClassVar[str]

    @abstractmethod
    def sections(self, folders: Sequence[Path]) -> Mapping[str, Mapping[str, Query]]:
        """The queries by name, under the titles that the help gives them."""

    @abstractmethod
    def command_of(self, query: Query, folders: Sequence[Path]) -> click.Command:
        """The command that runs a query."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _folders_first(args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for queries in self.sections(_folders(ctx)).values() for name in queries]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, queries in self.sections(_folders(ctx)).items():
            rows = [(query.name, printable(query.head.summary)) for query in queries.values()]
            with formatter.section(title):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        folders = _folders(ctx)
        known = dict(ChainMap(*map(dict, self.sections(folders).values())))  # the first ones win
        return self.command_of(query_named(name, known, listed_by=self.listed_by), folders)


def query_command(query: Query, run: Callable[..., None]) -> click.Command:
    """A command with the help and the options of a query, for a group to add its own."""
    return click.Command(
        query.name,
        callback=run,
        params=[option(parameter) for parameter in query.head.parameters],
        help=help_text(query),
        context_settings={"token_normalize_func": _with_underscores},
    )


def _folders(ctx: click.Context) -> Sequence[Path]:
    found: Sequence[Path] = ctx.params.get("queries", ())
    return found


def _folders_first(args: Sequence[str]) -> list[str]:
    """Moves `--queries FOLDER` to the front, because the query's name is looked up there."""
    first: list[str] = []
    rest: list[str] = []
    remaining = iter(args)
    for arg in remaining:
        if arg == "--queries":
            first += [arg, *([value] if (value := next(remaining, None)) is not None else [])]
        else:
            (first if arg.startswith("--queries=") else rest).append(arg)
    return first + rest


def _with_underscores(token: str) -> str:
    """Lets `--no-wait` stand for the parameter no_wait."""
    return token.replace("-", "_")
