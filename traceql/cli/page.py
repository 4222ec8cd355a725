"""Opens a page of the Perfetto UI, and serves it the trace."""

import os
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from traceql.database.database import Database
from traceql.result import Result
from traceql.util.printable import one_line

if TYPE_CHECKING:
    from traceql.present.pftrace.pair import Pair
    from traceql.present.pftrace.shown_run import ShownRun
    from traceql.present.ui.place import Place
    from traceql.present.ui.server import PageServer
    from traceql.present.ui.site import Page

    PageOf = Callable[[Path, str, Place | None, Sequence[str]], Page]

_RANKS = r"^rank \d"
_NAME_LETTERS = 30  # of each run's name, because a file's name must not be too long


def open_slowest_row(trace: Database, query: str, result: Result) -> None:
    """Opens the enriched trace at the slowest row of a query's result."""
    from traceql.present.ui.place import place_of_row, slowest_row
    from traceql.present.ui.site import open_groups

    row = slowest_row(query, result)
    place = place_of_row(trace, query, row)
    values = "  ".join(f"{name}={value}" for name, value in row.items() if value is not None)
    click.echo(one_line(values))
    server, page_of = page_server(offline=False)
    with server, enriched(trace) as file:
        page = page_of(file, server.address, place, open_groups(place))
        serve(server, page, browser=True)


def page_server(*, offline: bool) -> tuple["PageServer", "PageOf"]:
    """A server, and the function that makes its page: of the installed Perfetto UI if asked for.

    Or if the port is in use: ui.perfetto.dev can fetch from no other.
    """
    from traceql.present.ui.server import PORT, PageServer, PortInUse
    from traceql.present.ui.site import offline_page, online_page

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


def opened_groups_of_pair(pair: "Pair") -> tuple[str, ...]:
    """The rank of the aligned steps, which fits on a screen for both runs; else all ranks."""
    at = pair.alignment.at
    if isinstance(at, str):
        return (_RANKS,)
    return tuple(rf"^rank {rank} " for rank in sorted({step.rank for step in at}))


@contextmanager
def enriched(trace: Database) -> Iterator[Path]:
    """The enriched trace in a temporary file, which is deleted afterwards."""
    from traceql.present.pftrace import ShownRun

    with _written([ShownRun(trace)], trace.path.stem) as file:
        yield file


@contextmanager
def enriched_pair(pair: "Pair") -> Iterator[Path]:
    """The same with two runs."""
    runs = [pair.base, pair.new]
    with _written(runs, "-and-".join(run.trace.path.stem[:_NAME_LETTERS] for run in runs)) as file:
        yield file


@contextmanager
def _written(runs: Sequence["ShownRun"], name: str) -> Iterator[Path]:
    """An enriched trace whose name the page shows."""
    from traceql.present.pftrace import export_runs

    with TemporaryDirectory(prefix="traceql-") as folder:
        yield export_runs(runs, Path(folder) / f"{name}.pftrace")


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
