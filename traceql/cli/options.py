"""Options that several commands share, and their values."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import click

from traceql.errors import TraceqlError

if TYPE_CHECKING:
    from traceql.database.database import Database
    from traceql.database.excerpt import ExcerptSelection
    from traceql.result import Result

_Command = TypeVar("_Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
INPUT = click.Path(path_type=Path, readable=False)  # the reader reports what it cannot read
ROW_FORMATS = ("table", "csv", "json", "parquet")
STACK_FORMATS = (*ROW_FORMATS, "folded")
TABLE_HELP = (
    "Output format, written to stdout. table is for people: readable units, without empty columns "
    "and columns that do not fit."
)
FOLDED_HELP = (
    "folded is for flamegraph.pl, speedscope and similar tools: stacks with self time in ns "
    "(host.flame)."
)
_SAFE_HELP = (
    "With --format csv: put an apostrophe before text that a spreadsheet would run as a formula "
    "(=, +, -, @)."
)
_WIDE_HELP = "With --format table: show all columns."
_CHART_SUFFIXES = (".html", ".png", ".svg")

queries_option = click.option(
    "--queries", multiple=True, type=PATH, help="Folder of your own queries (or TRACEQL_QUERIES)."
)
chart_option = click.option(
    "--chart",
    "chart_file",
    type=PATH,
    help="Write a chart to this file (.html, .png or .svg) instead of printing rows.",
)
accept_option = click.option(
    "--accept",
    multiple=True,
    metavar="NAME",
    help="Accept this difference of set-up, such as gpu.name or parallel; all accepts every one. "
    "The output lists their names.",
)


def output_option(**more: Any) -> Callable[[_Command], _Command]:
    return click.option("-o", "--output", type=PATH, **more)


def validate_chart_file(path: Path | None) -> None:
    if path and path.suffix.lower() not in _CHART_SUFFIXES:
        raise TraceqlError(f"cannot draw into '{path}'; its name must end in .html, .png or .svg")


def _adds(
    options: list[Callable[[Any], Any]],
    combine: Callable[[dict[str, Any]], dict[str, Any]] = lambda parameters: parameters,
) -> Callable[[_Command], _Command]:
    """A decorator that adds options to a command.

    Args:
        combine: replaces the parameters of the options by one value for all of them.
    """

    def add(command: _Command) -> _Command:
        @wraps(command)
        def run(*args: Any, **parameters: Any) -> Any:
            return command(*args, **combine(parameters))

        decorated: Any = run
        for option in reversed(options):
            decorated = option(decorated)
        return cast(_Command, decorated)

    return add


@dataclass(frozen=True)
class OutputFormat:
    name: str
    spreadsheet_safe: bool = False
    wide: bool = False


def format_options(
    *names: str, help_text: str, wide: bool = True
) -> Callable[[_Command], _Command]:
    """Adds --format, --spreadsheet-safe and --wide: the parameter `output_format`."""
    kinds = click.Choice(names)
    options = [
        click.option("--format", "format_", type=kinds, default=names[0], help=help_text),
        click.option("--spreadsheet-safe", is_flag=True, help=_SAFE_HELP),
    ]
    if wide:
        options.append(click.option("--wide", is_flag=True, help=_WIDE_HELP))

    def combine(parameters: dict[str, Any]) -> dict[str, Any]:
        name, is_safe = parameters.pop("format_"), parameters.pop("spreadsheet_safe")
        if is_safe and name != "csv":
            raise click.UsageError("--spreadsheet-safe needs --format csv")
        chosen = OutputFormat(name, is_safe, parameters.pop("wide", False))
        return {**parameters, "output_format": chosen}

    return _adds(options, combine)


_PART_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "from": {
        "metavar": "TIME",
        "help": "Only events that begin at this time or later, from the start of the recording: "
        "12.5s, 40ms, 250us, 7ns; a number alone is seconds.",
    },
    "to": {"metavar": "TIME", "help": "Only events that begin before this time."},
    "steps": {
        "metavar": "STEP[-STEP]",
        "help": "Only this step, such as 100, or this range, such as 100-110 (step_id, see "
        "steps.timeline), with the same iterations of all ranks.",
    },
    "sample": {
        "metavar": "N",
        "type": click.IntRange(1),
        "help": "Only every Nth iteration of each phase, on all ranks.",
    },
}


@dataclass(frozen=True)
class Part:
    """The values of --from, --to, --steps and --sample; None where an option is not given."""

    start: str | None
    end: str | None
    steps: str | None
    sample: int | None

    @property
    def first_option(self) -> str | None:
        """The first option that is given, for messages."""
        values = zip(_PART_OPTIONS, (self.start, self.end, self.steps, self.sample), strict=True)
        return next((f"--{name}" for name, value in values if value is not None), None)

    @property
    def choice(self) -> "ExcerptSelection | None":
        from traceql.database.excerpt import parse_selection

        return parse_selection(self.start, self.end, self.steps, self.sample)

    def excerpt_of(self, database: "Database") -> AbstractContextManager["Database"]:
        """The part of the trace, open within the block; the trace itself without options."""
        choice = self.choice
        return nullcontext(database) if choice is None else database.excerpt_of(choice)


def part_options_except(*excluded: str) -> Callable[[_Command], _Command]:
    """Adds --from, --to, --steps and --sample: the parameter `run_part`."""
    options = [
        click.option(f"--{name}", f"part_{name}", **more)
        for name, more in _PART_OPTIONS.items()
        if name not in excluded
    ]

    def combine(parameters: dict[str, Any]) -> dict[str, Any]:
        part = Part(*(parameters.pop(f"part_{name}", None) for name in _PART_OPTIONS))
        return {**parameters, "run_part": part}

    return _adds(options, combine)


part_options = part_options_except()


class Queryable(Protocol):
    def query(self, name: str, /, **parameters: Any) -> "Result": ...

    def sql(self, sql: str, parameters: dict[str, Any] | None = None) -> "Result": ...


@dataclass(frozen=True)
class Selection:
    """The values of --query, --param and --sql."""

    query: str | None
    parameters: Mapping[str, str]
    sql: str | None

    @property
    def is_given(self) -> bool:
        return self.query is not None or self.sql is not None

    @property
    def is_list(self) -> bool:
        """Whether --query is `list`: the names of the queries."""
        return self.query == "list"

    def rows(self, source: Queryable, *, default: str) -> "Result":
        """The rows of the query, of the statement, or of the default query."""
        if self.sql is not None:
            return source.sql(self.sql)
        return source.query(self.query or default, **self.parameters)


def selection_options(*, sql: str, json: str) -> Callable[[_Command], _Command]:
    """Adds --query, --param, --sql and those of format_options: the parameter `selection`."""
    query_help = "Show the rows of this query; list shows their names."
    param: dict[str, Any] = {"multiple": True, "metavar": "NAME=VALUE"}
    options = [
        click.option("--query", metavar="NAME", help=query_help),
        click.option("--param", "params", **param, help="Parameter of --query. Repeatable."),
        click.option("--sql", help=f"Show the rows of this statement. {sql}"),
    ]
    format_help = f"Output format, written to stdout. Without --query or --sql, json is {json}."
    formats = format_options("table", "json", "csv", "parquet", help_text=format_help)

    def combine(parameters: dict[str, Any]) -> dict[str, Any]:
        query, statement = parameters.pop("query"), parameters.pop("sql")
        if query is not None and statement is not None:
            raise click.UsageError("give --query or --sql, not both")
        pairs = [param.partition("=") for param in parameters.pop("params")]
        if wrong := [name for name, equals, _ in pairs if not equals]:
            raise click.UsageError(f"--param {wrong[0]} has no value; write NAME=VALUE")
        values = {name: value for name, _, value in pairs}
        return {**parameters, "selection": Selection(query, values, statement)}

    return _adds([*options, formats], combine)


# BASE and NEW, and --base and --new for several repeats of each.
sides_arguments = _adds(
    [
        click.argument("paths", nargs=-1, type=INPUT, metavar="[BASE] [NEW]"),
        click.option("--base", multiple=True, type=INPUT, help="A repeat of BASE. Repeatable."),
        click.option("--new", multiple=True, type=INPUT, help="A repeat of NEW. Repeatable."),
    ]
)


def base_and_new(
    paths: tuple[Path, ...],
    base: tuple[Path, ...],
    new: tuple[Path, ...],
    *,
    baseline: Path | None = None,
    hint: str = "",
) -> tuple[list[Path], list[Path]]:
    """The paths of both sides: an argument names a side that no option names.

    Args:
        baseline: BASE if nothing names it.
        hint: an alternative, for the message about a missing side.

    Raises:
        UsageError: a side is missing, or is named twice.
    """
    unnamed, named = (not base) + (not new), list(paths)
    if not base and baseline is not None and len(paths) == unnamed - 1:
        named.insert(0, baseline)
    if len(named) != unnamed:
        raise click.UsageError(
            f"name two sides: BASE NEW, or --base A1 --base A2 --new B1 --new B2{hint}"
        )
    return list(base) or [named[0]], list(new) or [named[-1]]
