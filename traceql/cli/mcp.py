"""traceql mcp"""

import sys
from pathlib import Path

import click

from traceql.cli.folders import queries_option
from traceql.errors import TraceqlError


@click.command("mcp")
@click.argument("databases", nargs=-1, type=click.Path(path_type=Path))
@queries_option
def command(databases: tuple[Path, ...], queries: tuple[Path, ...]) -> None:
    """Let an assistant ask: findings, queries and SQL as tools of the Model Context Protocol.

    An assistant starts this command and talks to it over stdin and stdout. DATABASES are databases,
    or folders of databases (*.duckdb); without any, the current folder. The assistant can read
    these databases and no other file, and can write nothing.
    """
    try:
        from traceql.present.mcp.server import serve
    except ImportError as error:
        raise TraceqlError(
            f"traceql mcp needs the SDK of the protocol ({error}); run pip install 'traceql[mcp]'"
        ) from None
    from traceql.present.mcp.databases import Databases

    found = Databases(databases or (Path(),), queries)
    if sys.stdin.isatty():
        click.echo("serving an assistant on stdin and stdout; Ctrl-D ends it", err=True)
    serve(found)
