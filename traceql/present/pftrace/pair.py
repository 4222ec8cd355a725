"""Two runs that are compared on one time axis."""

from dataclasses import dataclass

from traceql.database.database import Database
from traceql.present.pftrace.alignment import Alignment, aligned
from traceql.present.pftrace.shown_run import ShownRun

BASE, NEW = "base", "new"


@dataclass(frozen=True)
class Pair:
    """The runs as they are shown, and where they are aligned."""

    base: ShownRun
    new: ShownRun
    alignment: Alignment


def pair_of(base: Database, new: Database, step: int | None = None) -> Pair:
    """The two runs, aligned; see `aligned`."""
    alignment = aligned(base, new, step)
    base_ns, new_ns = alignment.shifts_ns
    return Pair(
        ShownRun(base, BASE, shift_ns=base_ns, number=0),
        ShownRun(new, NEW, shift_ns=new_ns, number=1),
        alignment,
    )
