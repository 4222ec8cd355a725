"""A run in an enriched trace, which may show two: what tells them apart, and when each begins."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.database.database import Database
from traceql.present.pftrace.kinds import EXCERPT, IDLE, KINDS, TRACKS, TrackKind

_WINDOWS = """
    SELECT MAX(windows) AS windows
    FROM (SELECT COUNT(*) AS windows FROM excerpt_window GROUP BY rank)
"""
_RANKS = (TRACKS / "ranks.sql").read_text()
_COMMAND = "see"  # a column
_FLOWS = ("flow_out", "flow_in", "flow")
_APART = 1 << 60  # between the numbers of the flows of two runs; a database has fewer rows


@dataclass(frozen=True)
class ShownRun:
    """A run, and how it is shown.

    Attributes:
        trace: the run's database.
        label: "base" or "new", which its groups and slices say; None if it is the only run.
        shift_ns: what is added to all its times.
        number: from 0; the flows of runs with different numbers never meet.
    """

    trace: Database
    label: str | None = None
    shift_ns: int = 0
    number: int = 0

    def rank_names(self) -> dict[int, str]:
        """The name of each rank's group of tracks."""
        return {
            row["rank"]: row["name"] for row in self.trace.select(_RANKS, {"label": self.label})
        }

    @property
    def kinds(self) -> tuple[TrackKind, ...]:
        """What is shown of it, from top to bottom.

        Between the windows of an excerpt nothing is known, so there is no share of idle time.
        """
        if self.trace.excerpt_info is None:
            return KINDS
        (row,) = self.trace.select(_WINDOWS)
        left_out = {IDLE} if row["windows"] > 1 else set[TrackKind]()
        return (EXCERPT, *(kind for kind in KINDS if kind not in left_out))

    def rows(self, sql: str) -> pa.Table:
        """The rows of a query for tracks, as they are shown."""
        rows = self.trace.select(sql).arrow()
        for name in rows.column_names:
            if name == "ts":
                rows = _increased(rows, name, self.shift_ns)
            elif name == _COMMAND and self.trace.excerpt_options:
                rows = _followed_by(rows, name, f" {self.trace.excerpt_options}")
            elif name in _FLOWS:
                rows = _increased(rows, name, self.number * _APART)
        if self.label is None:
            return rows
        return rows.append_column("run", pa.repeat(pa.scalar(self.label), len(rows)))


def _followed_by(rows: pa.Table, name: str, text: str) -> pa.Table:
    place = rows.schema.get_field_index(name)
    longer = pc.binary_join_element_wise(rows[name], pa.scalar(text), "")
    return rows.set_column(place, name, longer)


def _increased(rows: pa.Table, name: str, by: int) -> pa.Table:
    if by == 0:
        return rows
    place = rows.schema.get_field_index(name)
    increased = pc.add(rows[name].cast(pa.int64()), np.int64(by))
    return rows.set_column(place, name, increased)
