"""Opens a page of the Perfetto UI, and serves it the trace."""

import os
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from traceql.printable import one_line
from traceql.result import Result
from traceql.trace import Trace

if TYPE_CHECKING:
    from traceql.ui.place import Place
    from traceql.ui.server import PageServer
    from traceql.ui.site import Page

    PageOf = Callable[[Path, str, Place | None, Sequence[str]], Page]

_GROUPS = (r"^all ranks$", r"^rank \d")
_DETAILS = (r"^Idle gaps$",)  # they say something only where each slice can be seen


def open_slowest_row(trace: Trace, query: str, result: Result) -> None:
    """Opens the enriched trace at the slowest row of a query's result."""
    from traceql.ui.place import place_of_row, slowest_row

    row = slowest_row(query, result)
    place = place_of_row(trace, query, row)
    values = "  ".join(f"{name}={value}" for name, value in row.items() if value is not None)
    click.echo(one_line(values))
    server, page_of = page_server(offline=False)
    with server, enriched(trace) as file:
        page = page_of(file, server.address, place, opened_groups(place))
        serve(server, page, browser=True)


def page_server(*, offline: bool) -> tuple["PageServer", "PageOf"]:
    """A server, and the function that makes its page: of the installed Perfetto UI if asked for.

    Or if the port is in use: ui.perfetto.dev can fetch from no other.
    """
    from traceql.ui.server import PORT, PageServer, PortInUse
    from traceql.ui.site import offline_page, online_page

    try:
        return PageServer(), offline_page if offline else online_page
    except PortInUse:
        if not offline:
            click.echo(
                f"Port {PORT} is in use, perhaps by another traceql ui, and ui.perfetto.dev can "
                "use no other. The installed Perfetto UI opens instead, as with --offline.",
                err=True,
            )
        return PageServer(port=0), offline_page


def opened_groups(place: "Place | None") -> tuple[str, ...]:
    """The groups of tracks of an enriched trace that are not collapsed at first."""
    return _GROUPS if place is None else (*_GROUPS, *_DETAILS)


@contextmanager
def enriched(trace: Trace) -> Iterator[Path]:
    """The enriched trace in a temporary file, which is deleted afterwards."""
    from traceql.pftrace import export_perfetto

    with TemporaryDirectory(prefix="traceql-") as folder:
        yield export_perfetto(trace, Path(folder) / f"{trace.path.stem}.pftrace")


def _show(link: str, *, browser: bool, port: int) -> None:
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


def serve(server: "PageServer", page: "Page", *, browser: bool) -> None:
    """Serves until the page has the trace, or until Ctrl-C; the Perfetto UI always until Ctrl-C."""
    _show(page.link, browser=browser, port=server.server_port)
    click.echo(
        "Serving the trace and the Perfetto UI to this machine only, until you press Ctrl-C."
        if page.site.last is None
        else "Serving the trace to this page only, until the page has it or you press Ctrl-C.",
        err=True,
    )
    try:
        server.serve(page.site)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    else:
        click.echo("The page has the trace.", err=True)
