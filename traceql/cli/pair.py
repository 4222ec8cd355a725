"""Two runs on one time axis, for traceql ui and traceql export."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceql.database.database import open_database
from traceql.util.printable import one_line

if TYPE_CHECKING:
    from traceql.present.pftrace.pair import Pair


@contextmanager
def opened_pair(base: Path, new: Path, step: int | None) -> Iterator["Pair"]:
    """Opens both runs, and aligns them."""
    from traceql.present.pftrace.pair import pair_of

    with open_database(base) as base_trace, open_database(new) as new_trace:
        yield pair_of(base_trace, new_trace, step)


def tell_alignment(pair: "Pair", base: Path, new: Path) -> None:
    """Says where the runs are aligned, once there is a file that shows it."""
    at = pair.alignment.at
    if isinstance(at, str):
        told = f"Aligned at {at}, as no phase of steps is in both: base {base}, new {new}."
    else:
        told = f"Aligned: base {base} at {at[0]}, new {new} at {at[1]}."
    click.echo(one_line(told), err=True)
