"""traceql run, sql and queries: a command for each query, made from its file."""

import os
import sys
from abc import abstractmethod
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click

from traceql.cli.options import (
    FOLDED_HELP,
    PATH,
    STACK_FORMATS,
    TABLE_HELP,
    OutputFormat,
    Part,
    chart_option,
    format_options,
    part_options,
    part_options_except,
    queries_option,
)
from traceql.cli.output import (
    MAX_TABLE_ROWS,
    TableStyle,
    print_if_limited,
    print_status,
    print_text,
    write_rows,
)
from traceql.database.database import Database
from traceql.errors import QueryInvalid, TraceqlError
from traceql.present.ui.place import has_place
from traceql.sql.query import LIMIT, Parameter, Query, bound, catalog, query_named
from traceql.util.text import one_line, printable


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
            found = trace.select(
                "SELECT CAST(rank AS VARCHAR) AS rank FROM trace "
                "WHERE trace.rank IS NOT NULL ORDER BY trace.rank"
            )
            return [row["rank"] for row in found if row["rank"].startswith(begun)]
    except TraceqlError:
        return []


_format_options = format_options(*STACK_FORMATS, help_text=f"{TABLE_HELP} {FOLDED_HELP}")


class _Queries(QueryGroup):
    listed_by = "traceql queries"

    def sections(self, folders: Sequence[Path]) -> dict[str, dict[str, Query]]:
        return {"Queries": catalog(folders)}

    def command_of(self, query: Query, folders: Sequence[Path]) -> click.Command:
        @click.argument("database", type=PATH)
        @part_options_except(*(parameter.name for parameter in query.head.parameters))
        @_format_options
        @chart_option
        def run_query(
            database: Path,
            output_format: OutputFormat,
            chart_file: Path | None,
            run_part: Part,
            ui: bool = False,
            **parameters: Any,
        ) -> None:
            with Database(database, queries=folders) as whole, run_part.excerpt_of(whole) as trace:
                if ui:
                    from traceql.cli.perfetto import open_slowest_row

                    open_slowest_row(trace, query.name, trace.query(query.name, **parameters))
                elif chart_file:
                    result = trace.query(query.name, **parameters)
                    result.save_chart(chart_file)
                    print_status(f"wrote {chart_file}: a chart of {len(result):,} rows")
                else:
                    _write_query(trace, query, parameters, output_format)

        command = query_command(query, run_query)
        if has_place(column.name for column in query.head.columns):
            command.params.append(
                click.Option(["--ui"], is_flag=True, help="Open Perfetto at the slowest row.")
            )
        return command


def _write_query(
    database: Database, query: Query, parameters: dict[str, Any], output_format: OutputFormat
) -> None:
    head = database.queries[query.name].head  # in the terms of the device
    values = bound(query, parameters)
    empty, rank = head.empty, parameters.get("rank")
    loaded = [
        row["rank"]
        for row in database.select("SELECT rank FROM trace WHERE rank IS NOT NULL ORDER BY rank")
    ]
    if rank is not None and rank not in loaded:
        empty = f"rank {rank} is not loaded (loaded: {', '.join(map(str, loaded))})"
    style = TableStyle(empty, head.keys, None if LIMIT in parameters else MAX_TABLE_ROWS)
    count = write_rows(database, query.sql, values, output_format, style)
    if output_format.name == "table":
        print_if_limited(database, query.name, values, count)


@click.command(cls=_Queries)
@queries_option
def run(queries: tuple[Path, ...]) -> None:
    """Run a query, e.g. traceql run kernels.top run.duckdb --limit 10."""


@click.command()
@click.argument("database", type=PATH)
@click.argument("statement")
@_format_options
@part_options
def sql(database: Path, statement: str, output_format: OutputFormat, run_part: Part) -> None:
    """Run one SQL statement, e.g. traceql sql run.duckdb "SELECT ...".

    If STATEMENT is -, it is read from stdin. The statement cannot write, and cannot read other
    files.
    """
    statement = statement_text(statement)
    with Database(database) as whole, run_part.excerpt_of(whole) as trace:
        write_rows(trace, statement, None, output_format, public=True)


def statement_text(argument: str) -> str:
    """The statement of a command line, from stdin if it is -.

    Raises QueryInvalid if it is not UTF-8.
    """
    if argument.isascii() and argument != "-":
        return argument
    encoded = sys.stdin.buffer.read() if argument == "-" else os.fsencode(argument)
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        raise QueryInvalid("the statement is not UTF-8; write bytes as '\\xFF'::BLOB") from None


# The most common questions, in the order that leads to a cause.
_FIRST = (
    *("overview.findings", "time.breakdown", "time.lost", "steps.phases"),
    *("layers.roles", "kernels.top", "comm.waits", "idle.host"),
)
_START, _OTHERS = "Start with", "Others"
# Topics, each with the first words of the names of its queries.
_TOPICS: Mapping[str, Sequence[str]] = {
    _START: (),
    "The run": ("overview", "quality", "gpu", "serving"),
    "Steps": ("time", "step", "steps", "graphs", "whatif"),
    "Layers": ("layers", "modules", "model", "moe"),
    "Kernels": ("kernels", "ops", "launch", "annotations", "memory"),
    "Communication": ("comm", "parallel", "tp", "pp", "dp", "ep"),
    "Idle time and the host": ("idle", "host"),
    "Limits of the hardware": ("efficiency", "roofline", "ncu"),
    _OTHERS: (),
}


@click.command()
@click.argument("name", required=False, shell_complete=complete_queries)
@queries_option
def queries(name: str | None, queries: tuple[Path, ...]) -> None:
    """List the queries by topic. With NAME, show its definition, parameters, columns and units."""
    found = catalog(queries)
    if name:
        _print_definition(query_named(name, found))
        return
    by_topic: dict[str, list[tuple[str, str]]] = {topic: [] for topic in _TOPICS}
    broken: list[str] = []
    for query in (found[name] for name in dict.fromkeys((*_FIRST, *found)) if name in found):
        try:
            first_word = query.name.split(".")[0]
            topics = (topic for topic, words in _TOPICS.items() if first_word in words)
            topic = _START if query.name in _FIRST else next(topics, _OTHERS)
            by_topic[topic].append((query.name, query.head.summary))
        except QueryInvalid as error:
            broken.append(str(error))
    width = max(map(len, found))
    for topic, rows in by_topic.items():
        if rows:
            click.echo(f"{topic}:" if topic == _START else f"\n{topic}:")
        for row in rows:
            _print_row(row, [width])
    if broken:
        raise QueryInvalid("; ".join(broken))


def _print_definition(query: Query) -> None:
    head = query.head
    print_text(one_line(f"{query.name}: {head.summary}"))
    for paragraph in head.text.split("\n\n") if head.text else ():
        click.echo()
        is_list = paragraph.startswith("- ")
        for item in paragraph.replace("\n- ", "\n\n- ").split("\n\n") if is_list else [paragraph]:
            print_text(one_line(item), hanging="  " if is_list else "")
    blocks = {
        "Parameters": [
            (f"--{one.name}", one.type.__name__, one.meaning)
            if one.default is None
            else (f"--{one.name}", one.type.__name__, f"{one.meaning} [default: {one.default}]")
            for one in head.parameters
        ],
        "Columns": [(column.name, column.type, column.text) for column in head.columns],
    }
    for title, rows in blocks.items():
        if rows:
            click.echo(f"\n{title}:")
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        for row in rows:
            _print_row(row, widths)
    click.echo(f"\nFile: {printable(str(query.path))}")


def _print_row(row: Sequence[str], widths: Sequence[int]) -> None:
    """Aligned names, then a text beside them, or below them on a narrow terminal."""
    *names, text = row
    aligned = [f"{printable(name):{width}}  " for name, width in zip(names, widths, strict=True)]
    print_text(one_line(text), before="  " + "".join(aligned))
