"""traceql report and mcp: a run as a page, and as tools of an assistant."""

import sys
from pathlib import Path

import click

from traceql.cli.options import (
    PATH,
    OutputFormat,
    Part,
    format_options,
    output_option,
    part_options,
    queries_option,
)
from traceql.errors import TraceqlError

_OUTPUTS = {"html": "report.html", "json": "report.json", "csv": "report"}


@click.command()
@click.argument("database", type=PATH)
@output_option(
    help="File to write or replace; for csv, a folder.  "
    "[default: report.html, report.json, report/]"
)
@format_options(
    *_OUTPUTS,
    help_text="html is one page, json one document, csv a folder with a file per query.",
    wide=False,
)
@queries_option
@part_options
def report(
    database: Path,
    output: Path | None,
    output_format: OutputFormat,
    queries: tuple[Path, ...],
    run_part: Part,
) -> None:
    """Write a report on where the time went: one self-contained page that works offline."""
    from traceql.cli.info import warn_if_large
    from traceql.cli.output import print_status
    from traceql.database.database import Database
    from traceql.present.report.run_report import page, write_csv, write_json
    from traceql.util.files import atomic_write

    path = output or Path(_OUTPUTS[output_format.name])
    with Database(database, queries=queries) as whole, run_part.excerpt_of(whole) as trace:
        warn_if_large(trace, for_perfetto=False)
        if output_format.name == "json":
            write_json(trace, path)
        elif output_format.name == "csv":
            write_csv(trace, path, spreadsheet_safe=output_format.spreadsheet_safe)
        else:
            with atomic_write(path) as draft:  # fails before the work if the path is not writable
                print_status("running the queries and drawing their charts (5 to 30 s) ...")
                draft.write_bytes(page(trace).encode())
    print_status(f"wrote {path}")


@click.command()
@click.argument("databases", nargs=-1, type=PATH)
@queries_option
def mcp(databases: tuple[Path, ...], queries: tuple[Path, ...]) -> None:
    """Run an MCP server: findings, queries and SQL as tools of the Model Context Protocol.

    An assistant starts this command and communicates over stdin and stdout. DATABASES are
    databases, or folders of databases (*.duckdb); by default, the current folder. The assistant can
    read these databases and no other file, and cannot write.
    """
    try:
        from traceql.present.mcp.server import serve
    except ImportError as error:
        raise TraceqlError(
            f"traceql mcp needs the MCP SDK ({error}); run pip install 'traceql[mcp]'"
        ) from None
    from traceql.present.mcp.answers import Databases

    found = Databases(databases or (Path(),), queries)
    if sys.stdin.isatty():
        click.echo("MCP server on stdin and stdout; press Ctrl-D to stop", err=True)
    serve(found)
