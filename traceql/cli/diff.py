"""traceql diff"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.output import require_csv, spreadsheet_option, wide_option
from traceql.cli.two_sides import accept_option, sides, sides_arguments
from traceql.printable import printable

if TYPE_CHECKING:
    from traceql.compare import Comparison

_FORMATS = ("table", "json", "csv", "parquet")


class Percent(click.ParamType[float]):
    """A share such as 2% or 0.5%, as a fraction."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            share = float(str(value).removesuffix("%")) / 100
        except ValueError:
            self.fail(f"'{value}' is not a percentage such as 2%", param, ctx)
        if not 0 <= share < 1:
            self.fail(f"'{value}' is not between 0% and 100%", param, ctx)
        return share


@click.command("diff")
@sides_arguments
@click.option(
    "--threshold",
    type=Percent(),
    default="1%",
    show_default=True,
    help="The smallest change that counts.",
)
@accept_option
@click.option("--details", is_flag=True, help="Show every cause, layer, kernel and setting.")
@click.option(
    "--query",
    "query",
    metavar="NAME",
    help="Show the rows of one query of the comparison instead; list names them.",
)
@click.option(
    "--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter of --query."
)
@click.option(
    "--sql",
    help="Show the rows of a statement instead. base.kernel is the table kernel of BASE, "
    "new.kernel that of NEW; the comparison's own tables have no prefix.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    default="table",
    show_default=True,
    help="Output format, written to stdout. Without --query or --sql, json is one document.",
)
@spreadsheet_option
@wide_option
@click.option(
    "--chart",
    "chart_file",
    type=click.Path(path_type=Path),
    help="Write the chart of the difference, or of --query, to this file (.html, .png or .svg).",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path),
    help="Write one self-contained HTML page to this file.",
)
def command(
    paths: tuple[Path, ...],
    base: tuple[Path, ...],
    new: tuple[Path, ...],
    threshold: float,
    accept: tuple[str, ...],
    details: bool,
    query: str | None,
    params: tuple[str, ...],
    sql: str | None,
    format_: str,
    spreadsheet_safe: bool,
    wide: bool,
    chart_file: Path | None,
    report_file: Path | None,
) -> None:
    """Compare two runs, or repeats of each: what changed, is it real, does it add up?

    Each side is a database, a run directory, a folder of traces, a trace or a saved baseline. A
    folder of databases or of run directories holds one repeat for each. A verdict needs at least 4
    repeats a side (starts of the server), better 5; with fewer, differences are shown without one.
    """
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    if query is not None and sql is not None:
        raise click.UsageError("give --query or --sql, not both")
    if query == "list":
        _list_queries(format_, spreadsheet_safe, wide)
        return
    of_base, of_new = sides(paths, base, new)
    with compared(of_base, of_new, threshold, accept) as comparison:
        if report_file:
            from traceql.report.comparison import write_comparison

            write_comparison(comparison, report_file)
            click.echo(printable(f"wrote {report_file}"), err=True)
        if chart_file:
            comparison.run(query or "waterfall", **_values(params)).save_chart(chart_file)
            click.echo(printable(f"wrote {chart_file}"), err=True)
        if report_file or chart_file:
            return
        if query is not None or sql is not None:
            _print_rows(comparison, query, sql, params, format_, spreadsheet_safe, wide)
        elif format_ == "table":
            from traceql.cli.diff_screen import write_screen

            write_screen(comparison, details=details)
        elif format_ == "json":
            from traceql.compare.document import document_text

            click.echo(document_text(comparison))
        else:
            _print_rows(comparison, "answer", None, (), format_, spreadsheet_safe, wide)


def compared(
    base: list[Path], new: list[Path], threshold: float, accept: tuple[str, ...]
) -> "Comparison":
    """The comparison; says what is loaded while it takes time."""
    from traceql.compare import Comparison
    from traceql.compare.sides import groups_of

    def say(text: str) -> None:
        click.echo(printable(text), err=True)

    return Comparison(*groups_of((base, new), say=say), threshold=threshold, accept=accept)


def _list_queries(format_: str, spreadsheet_safe: bool, wide: bool) -> None:
    import pyarrow as pa

    from traceql.cli.result_output import write_result
    from traceql.compare.comparison import diff_queries
    from traceql.result import Result

    found = diff_queries()
    rows = [{"query": name, "meaning": one.head.summary} for name, one in found.items()]
    listed = Result(pa.Table.from_pylist(rows))
    write_result(listed, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)


def _values(params: tuple[str, ...]) -> dict[str, str]:
    pairs = [param.partition("=") for param in params]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise click.UsageError(f"--param {wrong[0]} has no value; write NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _print_rows(
    comparison: "Comparison",
    query: str | None,
    sql: str | None,
    params: tuple[str, ...],
    format_: str,
    spreadsheet_safe: bool,
    wide: bool,
) -> None:
    from traceql.cli.result_output import write_result

    found = comparison.run(query, **_values(params)) if query else comparison.sql(sql or "")
    write_result(found, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)
