"""traceql report"""

from pathlib import Path
from typing import Any

import click

from traceql.cli.excerpt_options import part_of, part_options, shown_part
from traceql.cli.folders import queries_option
from traceql.cli.large import tell_if_large_report
from traceql.cli.output import require_csv, spreadsheet_option
from traceql.database.database import Database
from traceql.util.printable import printable

_OUTPUTS = {"html": "report.html", "json": "report.json", "csv": "report"}


@click.command("report")
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write or replace; for csv, a folder.  "
    "[default: report.html, report.json, report/]",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(_OUTPUTS)),
    default="html",
    show_default=True,
    help="html is one page, json one document, csv a folder with a file per query.",
)
@spreadsheet_option
@queries_option
@part_options()
def command(
    database: Path,
    output: Path | None,
    format_: str,
    spreadsheet_safe: bool,
    queries: tuple[Path, ...],
    **part: Any,
) -> None:
    """Write a report on where the time went: one self-contained page that works offline."""
    require_csv(format_, spreadsheet_safe=spreadsheet_safe)
    path = output or Path(_OUTPUTS[format_])
    with (
        Database(database, queries=queries) as whole,
        shown_part(whole, part_of(part)) as trace,
    ):
        tell_if_large_report(trace)
        _write(trace, path, format_, spreadsheet_safe)
    click.echo(printable(f"wrote {path}"), err=True)


def _write(trace: Database, path: Path, format_: str, spreadsheet_safe: bool) -> None:
    if format_ == "html":
        from traceql.present.report.page import page
        from traceql.util.files import whole_file

        with whole_file(path) as draft:  # a place that cannot be written is told before the work
            click.echo("running the queries and drawing their charts (5 to 30 s) ...", err=True)
            draft.write_bytes(page(trace).encode())
        return
    from traceql.present.report.data import write_csv, write_json

    if format_ == "json":
        write_json(trace, path)
    else:
        write_csv(trace, path, spreadsheet_safe=spreadsheet_safe)
