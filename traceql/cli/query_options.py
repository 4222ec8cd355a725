"""Options and help that come from the head of a query file."""

from pathlib import Path
from typing import Any

import click

from traceql.cli.completion import complete_ranks
from traceql.sql.query import Parameter, Query
from traceql.util.printable import printable

chart_option = click.option(
    "--chart",
    "chart_file",
    type=click.Path(path_type=Path),
    help="Write a chart to this file (.html, .png or .svg) instead of printing rows.",
)


def option(parameter: Parameter) -> click.Option:
    """The option of a parameter."""
    kind: Any = click.IntRange(0) if parameter.is_limit else parameter.type
    if parameter.values:
        kind = click.Choice(parameter.values, case_sensitive=False)
    text = printable(parameter.meaning)
    names = [f"--{parameter.name}", parameter.name]
    if parameter.type is bool:
        return click.Option(names, is_flag=True, default=parameter.default, help=text)
    return click.Option(
        names,
        type=kind,
        default=parameter.default,
        show_default=parameter.default is not None,
        help=text,
        shell_complete=complete_ranks if parameter.name == "rank" else None,
    )


def help_text(query: Query) -> str:
    """What a query answers, for click."""
    return printable(f"{query.head.summary}\n\n{_wrapped(query.head.text)}")


def _wrapped(text: str) -> str:
    """The text of a head for click, which wraps paragraphs: each item of a list becomes one."""
    return text.replace("\n- ", "\n\n- ")
