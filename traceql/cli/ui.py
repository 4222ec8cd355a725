"""traceql ui"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.cli.page import RANK_GROUPS, enriched, serve, show
from traceql.files import is_database
from traceql.trace import open_trace

if TYPE_CHECKING:
    from traceql.ui.place import Place


@click.command("ui")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--offline", is_flag=True, help="Use the Perfetto UI that is installed: no internet.")
@click.option("--raw", is_flag=True, help="Open the original file of one rank.")
@click.option("--rank", type=int, help="With --raw: which.  [default: the lowest]")
@click.option("--step", type=int, help="Open at this step (step_id, as steps.timeline lists it).")
@click.option("--layer", type=int, help="With --step: open at this layer.")
@click.option("--browser/--no-browser", default=True, help="Open the browser, or print the link.")
def command(
    path: Path,
    offline: bool,
    raw: bool,
    rank: int | None,
    step: int | None,
    layer: int | None,
    browser: bool,
) -> None:
    """Open a run in Perfetto, with steps, layers and roles above its streams.

    PATH is a database, or trace files that are loaded first: a file, a folder of ranks, a run
    directory. The trace goes to the page from a server on this machine that nobody else can use,
    and that stops when the page has it.
    """
    if layer is not None and step is None:
        raise click.UsageError("--layer needs --step: a layer runs in every step")
    if rank is not None and not raw:
        raise click.UsageError("--rank needs --raw: the enriched trace has all ranks")
    from traceql.ui.server import PageServer
    from traceql.ui.site import offline_page, online_page

    with PageServer() as server, _shown(path, raw, rank, step, layer) as (file, place):
        page_of = offline_page if offline else online_page
        page = page_of(file, server.address, place, () if raw else RANK_GROUPS)
        show(page.link, browser=browser, port=server.server_port)
        serve(lambda: server.serve(page.site))


@contextmanager
def _shown(
    path: Path, raw: bool, rank: int | None, step: int | None, layer: int | None
) -> Iterator[tuple[Path, "Place | None"]]:
    """The file to open, and where in it."""
    if raw and rank is None and step is None and path.is_file() and not is_database(path):
        yield path, None
        return
    from traceql.ui.place import place_of_step

    with open_trace(path) as trace:
        place = None if step is None else place_of_step(trace, step, layer)
        if raw:
            file, to_file_ns = trace.file_of(rank)
            yield file, place and place.shifted(to_file_ns)
        else:
            with enriched(trace) as file:
                yield file, place
