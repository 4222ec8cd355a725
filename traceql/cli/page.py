"""Opens a page of the Perfetto UI, and serves it the trace."""

import os
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from traceql.printable import one_line
from traceql.result import Result
from traceql.trace import Trace

RANK_GROUPS = (r"^rank \d",)


def open_slowest_row(trace: Trace, query: str, result: Result) -> None:
    """Opens the enriched trace at the slowest row of a query's result."""
    from traceql.ui.place import place_of_row, slowest_row
    from traceql.ui.server import PageServer
    from traceql.ui.site import online_page

    row = slowest_row(query, result)
    place = place_of_row(trace, query, row)
    values = "  ".join(f"{name}={value}" for name, value in row.items() if value is not None)
    click.echo(one_line(values))
    with PageServer() as server, enriched(trace) as file:
        page = online_page(file, server.address, place, RANK_GROUPS)
        show(page.link, browser=True, port=server.server_port)
        serve(lambda: server.serve(page.site))


@contextmanager
def enriched(trace: Trace) -> Iterator[Path]:
    """The enriched trace in a temporary file, which is deleted afterwards."""
    from traceql.pftrace import export_perfetto

    with TemporaryDirectory(prefix="traceql-") as folder:
        yield export_perfetto(trace, Path(folder) / f"{trace.path.stem}.pftrace")


def show(link: str, *, browser: bool, port: int) -> None:
    """Opens the browser; over SSH, prints how to open the page on the user's own machine."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if connection:
        host = f"{os.environ.get('USER', 'user')}@{connection[2]}"
        other_port = f"-p {connection[3]} " if connection[3:] not in ([], ["22"]) else ""
        forward = f"ssh {other_port}-L {port}:localhost:{port} {host}"
        click.echo(f"On your own machine:  {forward}", err=True)
        click.echo("then open", err=True)
    click.echo(link)
    if browser and not connection:
        webbrowser.open(link)


def serve(until_done: Callable[[], None]) -> None:
    """Serves until the page has the trace, or until Ctrl-C."""
    click.echo("Serving the trace to this page only. Press Ctrl-C to stop.", err=True)
    try:
        until_done()
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
