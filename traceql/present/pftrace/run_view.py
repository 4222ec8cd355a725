"""A run in an enriched trace, which may show two: its tracks, its label and its time shift."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.database.database import Database

_TRACKS = Path(__file__).with_name("tracks")
_RANKS = (_TRACKS / "ranks.sql").read_text()
_WINDOWS = """
    SELECT MAX(windows) AS windows
    FROM (SELECT COUNT(*) AS windows FROM excerpt_window GROUP BY rank)
"""
_COMMAND = "see"  # a column
_FLOWS = ("flow_out", "flow_in", "flow")
_FLOW_OFFSET = 1 << 60  # between the numbers of the flows of two runs; a database has fewer rows


@dataclass(frozen=True)
class TrackKind:
    """Rows of a query in tracks/ that become slices, or counter samples, on the tracks they name.

    Attributes:
        group: a group in the group of the rank, which a viewer shows collapsed.
    """

    query: str
    is_counter: bool = False
    group: str | None = None

    @cached_property
    def sql(self) -> str:
        return (_TRACKS / f"{self.query}.sql").read_text()


_EXCERPT = TrackKind("excerpt")
_IDLE = TrackKind("idle", is_counter=True)
_KINDS = (  # from top to bottom
    *map(TrackKind, ("findings", "steps", "layers", "roles", "communication")),
    _IDLE,
    TrackKind("gaps", group="Idle gaps"),
    TrackKind("streams"),
    *(
        TrackKind(name, is_counter=True, group="Counters")
        for name in ("efficiency", "queue", "tokens", "memory", "telemetry")
    ),
    TrackKind("annotations", group="GPU annotations"),
    TrackKind("host", group="Host threads"),
)


@dataclass(frozen=True)
class RunView:
    """A run as it is shown.

    Attributes:
        label: "base" or "new", in the names of its groups and in its slices; None for a single run.
        shift_ns: added to all its times.
        number: from 0; runs with different numbers share no flows.
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
        """The kinds of tracks, from top to bottom.

        Between the windows of an excerpt nothing is known, so there is no share of idle time.
        """
        if self.trace.excerpt_info is None:
            return _KINDS
        (row,) = self.trace.select(_WINDOWS)
        return (_EXCERPT, *(kind for kind in _KINDS if kind is not _IDLE or row["windows"] <= 1))

    def rows(self, sql: str) -> pa.Table:
        """The rows of a query for tracks, with shifted times, distinct flows and the label."""
        rows = self.trace.select(sql).arrow()
        for place, name in enumerate(rows.column_names):
            column = rows[name]
            if name == "ts" and self.shift_ns:
                column = pc.add(column.cast(pa.int64()), np.int64(self.shift_ns))
            elif name in _FLOWS and self.number:
                column = pc.add(column.cast(pa.int64()), np.int64(self.number * _FLOW_OFFSET))
            elif name == _COMMAND and self.trace.excerpt_options:
                options = pa.scalar(f" {self.trace.excerpt_options}")
                column = pc.binary_join_element_wise(column, options, "")
            rows = rows.set_column(place, name, column)
        if self.label is None:
            return rows
        return rows.append_column("run", pa.repeat(pa.scalar(self.label), len(rows)))
