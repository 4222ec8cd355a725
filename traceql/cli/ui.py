"""traceql ui"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceql.cli.excerpt_options import Part, part_of, part_options, shown_part
from traceql.cli.page import (
    enriched,
    enriched_pair,
    opened_groups_of_pair,
    page_server,
    serve,
)
from traceql.cli.pair import opened_pair, tell_alignment
from traceql.database.database import open_database
from traceql.util.files import is_database

if TYPE_CHECKING:
    from traceql.present.ui.place import Place


@click.command("ui")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path), required=False)
@click.option(
    "--offline", is_flag=True, help="Use the installed copy of the Perfetto UI; needs no internet."
)
@click.option(
    "--raw",
    is_flag=True,
    help="Open the original file of one rank, or the slices of one that Perfetto cannot open.",
)
@click.option("--rank", type=int, help="With --raw: the rank to open.  [default: the lowest]")
@click.option(
    "--step",
    type=int,
    help="Zoom to this step (step_id, as steps.timeline lists it). With NEW: a step of PATH.",
)
@click.option("--layer", type=int, help="Layer of that step to zoom to; needs --step.")
@click.option(
    "--finding",
    type=int,
    help="Zoom to where this finding shows (number, as overview.findings lists it).",
)
@part_options()
@click.option(
    "--browser/--no-browser", default=True, help="Open the browser, or only print the link."
)
def command(
    path: Path,
    new: Path | None,
    offline: bool,
    raw: bool,
    rank: int | None,
    step: int | None,
    layer: int | None,
    finding: int | None,
    browser: bool,
    **options: Any,
) -> None:
    """Open a run in Perfetto, or two runs on one time axis.

    PATH is a database, or traces to load first: a trace file, a folder of ranks or a run directory.
    Each rank has tracks for steps, layers and roles above its streams.

    With NEW, a second run like PATH, each rank of both runs is shown one above the other. The same
    step begins at the same time in both: --step, or the median step of the phase that takes most of
    the time of PATH. Its partner in NEW has the same phase, and as many rows or the nearest number.

    A server on this machine hands the trace to the page. No other page or machine can use it. It
    ends when the page has the trace; with --offline it also serves the Perfetto UI, until Ctrl-C.
    """
    of_one_run = {"--raw": raw or None, "--rank": rank, "--layer": layer, "--finding": finding}
    part = part_of(options)
    given = [option for option, value in of_one_run.items() if value is not None]
    given += [part.given] if part.given else []
    if new is not None and given:
        raise click.UsageError(f"{given[0]} is for one run; leave it out, or name only one")
    if raw and part.given:
        raise click.UsageError(f"{part.given} is for the enriched trace; leave out --raw")
    if layer is not None and step is None:
        raise click.UsageError("--layer needs --step, because a layer runs in every step")
    if rank is not None and not raw:
        raise click.UsageError("--rank needs --raw, because the enriched trace has all ranks")
    if finding is not None and (raw or step is not None):
        raise click.UsageError("--finding is a place of its own; leave out --raw and --step")
    server, page_of = page_server(offline=offline)
    if new is not None:
        with server, _both(path, new, step) as (file, place, groups):
            serve(server, page_of(file, server.address, place, groups), browser=browser)
        return
    from traceql.present.ui.site import open_groups

    with server, _shown(path, part, raw, rank, step, layer, finding) as (file, place):
        page = page_of(file, server.address, place, () if raw else open_groups(place))
        serve(server, page, browser=browser)


@contextmanager
def _both(
    base: Path, new: Path, step: int | None
) -> Iterator[tuple[Path, "Place | None", tuple[str, ...]]]:
    """The file with two runs, the place in it to zoom to, and the groups that are not collapsed."""
    from traceql.present.ui.place import place_of_pair

    with opened_pair(base, new, step) as pair, enriched_pair(pair) as file:
        tell_alignment(pair, base, new)
        yield file, place_of_pair(pair), opened_groups_of_pair(pair)


def _opens_as_it_is(path: Path) -> bool:
    """Whether the Perfetto UI opens a file, which need not be loaded for that."""
    from traceql.readers.registry import opens_in_perfetto

    return path.is_file() and not is_database(path) and opens_in_perfetto(path)


@contextmanager
def _shown(
    path: Path,
    part: Part,
    raw: bool,
    rank: int | None,
    step: int | None,
    layer: int | None,
    finding: int | None,
) -> Iterator[tuple[Path, "Place | None"]]:
    """The file to open, and the place in it to zoom to."""
    if raw and rank is None and step is None and _opens_as_it_is(path):
        yield path, None
        return
    from traceql.present.ui.place import place_of_finding, place_of_step
    from traceql.present.ui.raw import raw_file

    with open_database(path) as whole, shown_part(whole, part) as trace:
        place = None if step is None else place_of_step(trace, step, layer)
        if finding is not None:
            place = place_of_finding(trace, finding)
        if raw:
            with raw_file(trace, rank) as (file, to_file_ns):
                yield file, place and place.shifted(to_file_ns)
        else:
            with enriched(trace) as file:
                yield file, place
