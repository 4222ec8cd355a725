"""traceql ui and export: runs in Perfetto."""

import os
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.info import warn_if_large
from traceql.cli.options import PATH, Part, output_option, part_options
from traceql.cli.output import print_status
from traceql.database.database import Database, open_database
from traceql.result import Result
from traceql.util.files import is_database
from traceql.util.text import one_line

if TYPE_CHECKING:
    from traceql.present.pftrace.run_view import Pair
    from traceql.present.ui.place import Place
    from traceql.present.ui.server import MakePage, Page, PageServer


@click.command()
@click.argument("path", type=PATH)
@click.argument("new", type=PATH, required=False)
@click.option(
    "--offline", is_flag=True, help="Use the installed copy of the Perfetto UI; needs no internet."
)
@click.option(
    "--raw",
    is_flag=True,
    help="Open the original file of one rank, or its slices if Perfetto cannot open the file.",
)
@click.option("--rank", type=int, help="With --raw: the rank to open.  [default: the lowest]")
@click.option(
    "--step",
    type=int,
    help="Zoom to this step (step_id, see steps.timeline). With NEW: a step of PATH.",
)
@click.option("--layer", type=int, help="Layer of that step to zoom to; needs --step.")
@click.option("--finding", type=int, help="Zoom to this finding (number, see overview.findings).")
@part_options
@click.option(
    "--browser/--no-browser",
    default=True,
    show_default=False,
    help="Open the browser, or only print the link.",
)
def ui(
    path: Path,
    new: Path | None,
    offline: bool,
    raw: bool,
    rank: int | None,
    step: int | None,
    layer: int | None,
    finding: int | None,
    browser: bool,
    run_part: Part,
) -> None:
    """Open a run in Perfetto, or two runs on one time axis.

    PATH is a database, or traces to load first: a trace file, a folder of ranks or a run directory.
    Each rank has tracks for steps, layers and roles above its streams.

    With NEW, a second run like PATH, the ranks of both runs alternate. The same step begins at the
    same time in both: --step, or the median step of the phase that takes most of the time of PATH.
    It is aligned with the step of NEW that has the same phase and the nearest number of rows.

    A server on this machine sends the trace to the page. No other page or machine can use it. It
    stops when the page has the trace; with --offline it also serves the Perfetto UI, until Ctrl-C.
    """
    of_one_run = {"--raw": raw or None, "--rank": rank, "--layer": layer, "--finding": finding}
    given = [option for option, value in of_one_run.items() if value is not None]
    given += filter(None, [run_part.first_option])
    if new is not None and given:
        raise click.UsageError(f"{given[0]} is for one run; leave it out, or name only one")
    if raw and run_part.first_option:
        raise click.UsageError(f"{run_part.first_option} is for the enriched trace; omit --raw")
    if layer is not None and step is None:
        raise click.UsageError("--layer needs --step, because a layer runs in every step")
    if rank is not None and not raw:
        raise click.UsageError("--rank needs --raw, because the enriched trace has all ranks")
    if finding is not None and (raw or step is not None):
        raise click.UsageError("--finding chooses the place itself; omit --raw and --step")
    from traceql.present.ui.place import place_of, place_of_pair
    from traceql.present.ui.server import enriched_page

    server, page_of = _page_server(offline=offline)
    with server:
        if new is not None:
            with _open_pair(path, new, step) as pair:
                # Only the rank of the aligned steps is not collapsed: both runs fit on a screen.
                at = pair.alignment.at
                groups = [r"^rank \d"]
                if not isinstance(at, str):
                    groups = [rf"^rank {rank} " for rank in sorted({one.rank for one in at})]
                runs, place = [pair.base, pair.new], place_of_pair(pair)
                with enriched_page(server, page_of, runs, place, groups) as page:
                    _print_alignment(pair, path, new)
                    _serve(server, page, browser=browser)
        elif raw:
            with _raw_file(path, rank, step, layer) as (file, place):
                _serve(server, page_of(file, server.address, place, ()), browser=browser)
        else:
            with open_database(path) as whole, run_part.excerpt_of(whole) as database:
                place = place_of(database, step, layer, finding)
                _serve_enriched(database, place, server, page_of, browser=browser)


def open_slowest_row(database: Database, query: str, result: Result) -> None:
    """Opens the enriched trace at the slowest row of a query's result."""
    from traceql.present.ui.place import place_of_row, slowest_row

    row = slowest_row(query, result)
    place = place_of_row(database, query, row)
    values = "  ".join(f"{name}={value}" for name, value in row.items() if value is not None)
    click.echo(one_line(values))
    server, page_of = _page_server(offline=False)
    with server:
        _serve_enriched(database, place, server, page_of, browser=True)


@contextmanager
def _raw_file(
    path: Path, rank: int | None, step: int | None, layer: int | None
) -> Iterator[tuple[Path, "Place | None"]]:
    """The file of a rank, and the place in it to zoom to; a trace file needs no load for that."""
    from traceql.present.ui.place import place_of
    from traceql.present.ui.trace_file import raw_file
    from traceql.readers.registry import opens_in_perfetto

    needs_no_load = rank is None and step is None and path.is_file() and not is_database(path)
    if needs_no_load and opens_in_perfetto(path):
        yield path, None
        return
    with open_database(path) as trace:
        place = place_of(trace, step, layer, None)
        with raw_file(trace, rank) as (file, to_file_ns):
            yield file, place and place.shifted(to_file_ns)


def _page_server(*, offline: bool) -> tuple["PageServer", "MakePage"]:
    """A server, and the function that makes its page.

    ui.perfetto.dev can only fetch from one port. If that is in use, the installed UI opens.
    """
    from traceql.present.ui.server import PORT, PageServer, PortInUse, offline_page, online_page

    try:
        return PageServer(), offline_page if offline else online_page
    except PortInUse:
        if not offline:
            print_status(
                f"Port {PORT} is in use, perhaps by another traceql ui, and ui.perfetto.dev needs "
                "it. Opening the installed Perfetto UI instead, as with --offline."
            )
        return PageServer(port=0), offline_page


def _serve_enriched(
    database: Database,
    place: "Place | None",
    server: "PageServer",
    page_of: "MakePage",
    *,
    browser: bool,
) -> None:
    from traceql.present.pftrace import RunView
    from traceql.present.ui.server import enriched_page

    with enriched_page(server, page_of, [RunView(database)], place) as page:
        _serve(server, page, browser=browser)


def _serve(server: "PageServer", page: "Page", *, browser: bool) -> None:
    """Serves until the page has the trace, or until Ctrl-C; the Perfetto UI always until Ctrl-C.

    Opens the browser; over SSH, prints how to open the page on the user's own machine.
    """
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if connection:
        host = f"{os.environ.get('USER', 'user')}@{connection[2]}"
        other_port = f"-p {connection[3]} " if connection[3:] not in ([], ["22"]) else ""
        port = server.server_port
        forward = f"ssh {other_port}-L {port}:localhost:{port} {host}"
        click.echo(f"On your own machine:  {forward}\nthen open", err=True)
    click.echo(page.link)
    if browser and not connection:
        webbrowser.open(page.link)
    print_status(
        "Serving the trace and the Perfetto UI to this machine only, until you press Ctrl-C."
        if page.site.last is None
        else "Serving the trace to this page only, until the page has it or you press Ctrl-C."
    )
    try:
        server.serve(page.site)
    except KeyboardInterrupt:
        print_status("stopped")
    else:
        print_status("The page has the trace.")


@contextmanager
def _open_pair(base: Path, new: Path, step: int | None) -> Iterator["Pair"]:
    """Both runs, aligned at a step of base."""
    from traceql.present.pftrace.run_view import pair_of

    with open_database(base) as base_trace, open_database(new) as new_trace:
        yield pair_of(base_trace, new_trace, step)


def _print_alignment(pair: "Pair", base: Path, new: Path) -> None:
    at = pair.alignment.at
    if isinstance(at, str):
        print_status(f"Aligned at {at}: no phase of steps is in both, base {base} and new {new}.")
    else:
        print_status(f"Aligned: base {base} at {at[0]}, new {new} at {at[1]}.")


@click.group()
def export() -> None:
    """Export a database to another format."""


@export.command()
@click.argument("path", type=PATH)
@click.argument("new", type=PATH, required=False)
@click.option("--step", type=int, help="With NEW: align at this step of PATH (step_id).")
@output_option(default="run.pftrace", help="File to write. It appears only when it is complete.")
@part_options
def perfetto(path: Path, new: Path | None, step: int | None, output: Path, run_part: Part) -> None:
    """Write all ranks to one native Perfetto trace.

    It has the streams and threads as recorded, and above them tracks for steps, layers, roles,
    communication and idle time. PATH is a database, or traces to load first. With NEW, a second
    run, the file has both, aligned as in traceql ui.
    """
    from traceql.present.pftrace import export_perfetto, export_runs

    if step is not None and new is None:
        raise click.UsageError(
            "--step chooses where two runs are aligned; name a second run, or give --steps "
            f"{step} to export only that step"
        )
    if new is not None and run_part.first_option:
        raise click.UsageError(
            f"{run_part.first_option} is for one run; for two, cut both with traceql cut, and "
            "export the results"
        )
    if new is None:
        with open_database(path) as whole, run_part.excerpt_of(whole) as trace:
            warn_if_large(trace, for_perfetto=True)
            export_perfetto(trace, output)
    else:
        with _open_pair(path, new, step) as pair:
            export_runs([pair.base, pair.new], output)
            _print_alignment(pair, path, new)
    size_mb = output.stat().st_size / 1e6
    click.echo(one_line(f"wrote {output}, {size_mb:,.1f} MB; open it at https://ui.perfetto.dev"))
