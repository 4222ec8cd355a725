"""A run in an enriched trace, or two runs on one time axis."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.database.database import Database
from traceql.errors import TraceqlError

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

    database: Database
    label: str | None = None
    shift_ns: int = 0
    number: int = 0

    def rank_names(self) -> dict[int, str]:
        """The name of each rank's group of tracks."""
        rows = self.database.select(_RANKS, {"label": self.label})
        return {row["rank"]: row["name"] for row in rows}

    @property
    def kinds(self) -> tuple[TrackKind, ...]:
        """The kinds of tracks, from top to bottom.

        Between the windows of an excerpt nothing is known, so there is no share of idle time.
        """
        if self.database.excerpt_info is None:
            return _KINDS
        (row,) = self.database.select(_WINDOWS)
        return (_EXCERPT, *(kind for kind in _KINDS if kind is not _IDLE or row["windows"] <= 1))

    def rows(self, sql: str) -> pa.Table:
        """The rows of a query for tracks, with shifted times, distinct flows and the label."""
        rows = self.database.select(sql).arrow()
        for place, name in enumerate(rows.column_names):
            column = rows[name]
            if name == "ts" and self.shift_ns:
                column = pc.add(column.cast(pa.int64()), np.int64(self.shift_ns))
            elif name in _FLOWS and self.number:
                column = pc.add(column.cast(pa.int64()), np.int64(self.number * _FLOW_OFFSET))
            elif name == _COMMAND and self.database.excerpt_options:
                options = pa.scalar(f" {self.database.excerpt_options}")
                column = pc.binary_join_element_wise(column, options, "")
            rows = rows.set_column(place, name, column)
        if self.label is None:
            return rows
        return rows.append_column("run", pa.repeat(pa.scalar(self.label), len(rows)))


FIRST_KERNELS, FIRST_EVENTS = "their first kernels", "their first events"

_FIRST_KERNEL = "SELECT MIN(ts) AS ts FROM kernel WHERE rank = $rank"
_TIMED = """
    WITH timed AS (
        SELECT
            step.step_id, step.rank, step.name,
            COALESCE(step.phase, '') AS phase,
            COALESCE(step_tokens.executed_tokens, step_tokens.tokens) AS tokens,
            step.gpu_ts AS ts,
            step.gpu_dur AS dur,
            step.source
        FROM step
        LEFT JOIN step_tokens USING (step_id)
    )
"""
_STEP = f"{_TIMED} SELECT * EXCLUDE (source) FROM timed WHERE step_id = $step"
_PHASES = f"""
    {_TIMED}
    SELECT phase
    FROM timed
    WHERE rank = $rank AND ts IS NOT NULL AND phase <> 'idle' AND source <> 'trace'
    GROUP BY phase
    ORDER BY SUM(dur) DESC, phase
"""
# Of an even number of steps, the shorter one of the two in the middle.
_MEDIAN_STEP = f"""
    {_TIMED},
    of_size AS (
        SELECT *
        FROM timed
        WHERE rank = $rank AND ts IS NOT NULL AND phase = $phase
        QUALIFY
            $tokens IS NULL
            OR RANK() OVER (ORDER BY ABS(tokens - CAST($tokens AS BIGINT)), tokens) = 1
    )
    SELECT * EXCLUDE (source)
    FROM of_size
    QUALIFY ROW_NUMBER() OVER (ORDER BY dur, step_id) = (COUNT(*) OVER () + 1) // 2
"""


@dataclass(frozen=True)
class TimedStep:
    """A step and its time on the GPU, by the clock of its rank, which its tracks show.

    Attributes:
        phase: "" if unknown.
        tokens: rows that its kernels run, or tokens if that is unknown.
        ts: start of its first kernel, ns since the first event of its run.
    """

    step_id: int
    rank: int
    name: str | None
    phase: str
    tokens: int | None
    ts: int
    dur: int

    def __str__(self) -> str:
        what = self.phase or self.name or "whole trace"
        size = "" if self.tokens is None else f", {self.tokens:,} row{'s' * (self.tokens != 1)}"
        return f"step {self.step_id} of rank {self.rank} ({what}{size})"


@dataclass(frozen=True)
class Alignment:
    """Two times, one in each run, that are shown as the same time.

    Attributes:
        base_ts: of the first run, ns since its first event.
        new_ts: of the second run.
        at: the two steps that begin then; FIRST_KERNELS or FIRST_EVENTS if there are none.
    """

    base_ts: int
    new_ts: int
    at: tuple[TimedStep, TimedStep] | str

    @property
    def shifts_ns(self) -> tuple[int, int]:
        """What to add to the times of each run: never negative, and 0 for one of them."""
        shown = max(self.base_ts, self.new_ts)
        return shown - self.base_ts, shown - self.new_ts


@dataclass(frozen=True)
class Pair:
    """Two runs as they are shown, and where they are aligned."""

    base: RunView
    new: RunView
    alignment: Alignment


def pair_of(base: Database, new: Database, step: int | None = None) -> Pair:
    """The two runs, aligned; see `align`."""
    alignment = align(base, new, step)
    base_ns, new_ns = alignment.shifts_ns
    base_view = RunView(base, "base", shift_ns=base_ns, number=0)
    return Pair(base_view, RunView(new, "new", shift_ns=new_ns, number=1), alignment)


def align(base: Database, new: Database, step: int | None = None) -> Alignment:
    """Aligns the runs at a step of the base and at the most similar step of the new run.

    That is a step of the same phase with the nearest number of rows; of several, the one with the
    median duration.

    Args:
        step: of the base. By default the median of the phase that takes most of its time, on the
            lowest rank of both runs; first kernels are aligned if the runs share no phase.

    Raises:
        TraceqlError: the base has no such step, or the new run none of its phase.
    """
    of_base, of_new = _ranks(base), _ranks(new)
    if step is not None:
        chosen = _step(base, step)
        return _at_steps(new, chosen, chosen.rank if chosen.rank in of_new else min(of_new))
    common = of_base & of_new
    rank, new_rank = min(common or of_base), min(common or of_new)
    phases = _phases(new, new_rank)
    for phase in _phases(base, rank):
        if phase in phases:
            return _at_steps(new, _median_step(base, rank, phase), new_rank)
    first, new_first = (
        one.select(_FIRST_KERNEL, {"rank": number})[0]["ts"]
        for one, number in ((base, rank), (new, new_rank))
    )
    if first is None or new_first is None:
        return Alignment(0, 0, FIRST_EVENTS)
    return Alignment(first, new_first, FIRST_KERNELS)


def _at_steps(new: Database, chosen: TimedStep, new_rank: int) -> Alignment:
    partner = _median_step(new, new_rank, chosen.phase, chosen.tokens)
    return Alignment(chosen.ts, partner.ts, (chosen, partner))


def _step(database: Database, step: int) -> TimedStep:
    found = database.select(_STEP, {"step": step}).rows()
    if not found:
        raise TraceqlError(
            f"no step {step}; list the steps with traceql run steps.timeline {database.path}"
        )
    if found[0]["ts"] is None:
        raise TraceqlError(f"step {step} runs nothing on the GPU; name another one with --step")
    return TimedStep(**found[0])


def _median_step(database: Database, rank: int, phase: str, tokens: int | None = None) -> TimedStep:
    """The median step of a phase by duration, among those with the nearest number of rows."""
    parameters: dict[str, Any] = {"rank": rank, "phase": phase, "tokens": tokens}
    found = database.select(_MEDIAN_STEP, parameters).rows()
    if not found:
        what = f"{phase} steps" if phase else "steps without a phase"
        raise TraceqlError(
            f"{database.path} has no {what} on rank {rank}; name another with --step"
        )
    return TimedStep(**found[0])


def _ranks(database: Database) -> set[int]:
    return {row["rank"] for row in database.select("SELECT rank FROM trace WHERE rank IS NOT NULL")}


def _phases(database: Database, rank: int) -> list[str]:
    """The phases of a rank's steps, the one that takes most time first."""
    return [row["phase"] for row in database.select(_PHASES, {"rank": rank})]
