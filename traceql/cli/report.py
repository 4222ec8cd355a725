"""traceql report"""

from pathlib import Path

import click

from traceql.cli.folders import queries_option
from traceql.trace import Trace

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
@queries_option
def command(database: Path, output: Path | None, format_: str, queries: tuple[Path, ...]) -> None:
    """Write a report on where the time went: one self-contained page that works offline."""
    path = output or Path(_OUTPUTS[format_])
    with Trace(database, queries=queries) as trace:
        _write(trace, path, format_)
    click.echo(f"wrote {path}", err=True)


def _write(trace: Trace, path: Path, format_: str) -> None:
    if format_ == "html":
        from traceql.files import write_whole
        from traceql.report.page import page

        write_whole(path, page(trace).encode())
        return
    from traceql.report.data import write_csv, write_json

    {"json": write_json, "csv": write_csv}[format_](trace, path)
