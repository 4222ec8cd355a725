"""traceql ui"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.page import enriched, opened_groups, page_server, serve
from traceql.files import is_database
from traceql.trace import open_trace

if TYPE_CHECKING:
    from traceql.ui.place import Place


@click.command("ui")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--offline", is_flag=True, help="Use the installed copy of the Perfetto UI; needs no internet."
)
@click.option("--raw", is_flag=True, help="Open the original trace file of one rank.")
@click.option("--rank", type=int, help="With --raw: the rank to open.  [default: the lowest]")
@click.option("--step", type=int, help="Zoom to this step (step_id, as steps.timeline lists it).")
@click.option("--layer", type=int, help="Layer of that step to zoom to; needs --step.")
@click.option(
    "--finding",
    type=int,
    help="Zoom to where this finding shows (number, as overview.findings lists it).",
)
@click.option(
    "--browser/--no-browser", default=True, help="Open the browser, or only print the link."
)
def command(
    path: Path,
    offline: bool,
    raw: bool,
    rank: int | None,
    step: int | None,
    layer: int | None,
    finding: int | None,
    browser: bool,
) -> None:
    """Open a run in Perfetto, with tracks for steps, layers and roles above the streams.

    PATH is a database, or traces to load first: a trace file, a folder of ranks or a run directory.
    A server on this machine hands the trace to the page. No other page or machine can use it. It
    ends when the page has the trace; with --offline it also serves the Perfetto UI, until Ctrl-C.
    """
    if layer is not None and step is None:
        raise click.UsageError("--layer needs --step, because a layer runs in every step")
    if rank is not None and not raw:
        raise click.UsageError("--rank needs --raw, because the enriched trace has all ranks")
    if finding is not None and (raw or step is not None):
        raise click.UsageError("--finding is a place of its own; leave out --raw and --step")
    server, page_of = page_server(offline=offline)
    with server, _shown(path, raw, rank, step, layer, finding) as (file, place):
        page = page_of(file, server.address, place, () if raw else opened_groups(place))
        serve(server, page, browser=browser)


@contextmanager
def _shown(
    path: Path,
    raw: bool,
    rank: int | None,
    step: int | None,
    layer: int | None,
    finding: int | None,
) -> Iterator[tuple[Path, "Place | None"]]:
    """The file to open, and the place in it to zoom to."""
    if raw and rank is None and step is None and path.is_file() and not is_database(path):
        yield path, None
        return
    from traceql.ui.place import place_of_finding, place_of_step

    with open_trace(path) as trace:
        place = None if step is None else place_of_step(trace, step, layer)
        if finding is not None:
            place = place_of_finding(trace, finding)
        if raw:
            file, to_file_ns = trace.file_of(rank)
            yield file, place and place.shifted(to_file_ns)
        else:
            with enriched(trace) as file:
                yield file, place
