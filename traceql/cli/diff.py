"""traceql diff"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.named_queries import (
    LIST,
    asked_rows,
    list_queries,
    parameter_values,
    query_options,
    require_one,
)
from traceql.cli.output import require_csv
from traceql.cli.two_sides import accept_option, sides, sides_arguments
from traceql.util.printable import printable

if TYPE_CHECKING:
    from traceql.runs.compare import Comparison


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
@query_options(
    sql="base.kernel is the table kernel of BASE, new.kernel that of NEW; the comparison's own "
    "tables have no prefix.",
    json="one document",
)
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
    require_one(query, sql)
    if query == LIST:
        from traceql.runs.compare import diff_queries

        list_queries(diff_queries(), format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)
        return
    of_base, of_new = sides(paths, base, new)
    with compared(of_base, of_new, threshold, accept) as comparison:
        if report_file:
            from traceql.present.report.comparison import write_comparison

            write_comparison(comparison, report_file)
            click.echo(printable(f"wrote {report_file}"), err=True)
        if chart_file:
            comparison.query(query or "waterfall", **parameter_values(params)).save_chart(
                chart_file
            )
            click.echo(printable(f"wrote {chart_file}"), err=True)
        if report_file or chart_file:
            return
        if format_ == "table" and query is None and sql is None:
            from traceql.cli.diff_screen import write_screen

            write_screen(comparison, details=details)
        elif format_ == "json" and query is None and sql is None:
            from traceql.runs.compare.document import document_text

            click.echo(document_text(comparison))
        else:
            from traceql.cli.result_output import write_result

            chosen = query or ("answer" if sql is None else None)
            found = asked_rows(comparison, chosen, sql, params)
            write_result(found, format_=format_, spreadsheet_safe=spreadsheet_safe, wide=wide)


def compared(
    base: list[Path], new: list[Path], threshold: float, accept: tuple[str, ...]
) -> "Comparison":
    """The comparison; says what is loaded while it takes time."""
    from traceql.runs.compare import Comparison
    from traceql.runs.compare.sides import groups_of

    def say(text: str) -> None:
        click.echo(printable(text), err=True)

    return Comparison(*groups_of((base, new), say=say), threshold=threshold, accept=accept)
