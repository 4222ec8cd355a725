"""The windows of an excerpt: for each rank, the spans of time whose rows it has."""

from dataclasses import dataclass

import duckdb

from traceql.database.excerpt.choice import Choice
from traceql.database.excerpt.times import seconds
from traceql.errors import TraceqlError

# The whole recording, or what an excerpt has of it.
_EXTENT = """
    SELECT MIN(ts), MAX(end_ts)
    FROM (
        SELECT MIN(ts) AS ts, MAX(ts + GREATEST(dur, 0)) AS end_ts FROM source.slice
        UNION ALL SELECT MIN(ts), MAX(ts) FROM source.instant
        UNION ALL SELECT MIN(ts), MAX(ts) FROM source.counter
        UNION ALL SELECT MIN(ts), MAX(ts) FROM source.memory
    )
"""
_SPAN = """
    SELECT rank, CAST($from_ns AS BIGINT) AS from_ts, CAST($to_ns AS BIGINT) AS to_ts
    FROM source.trace
"""
# An event that ends a step may have no duration; so a window ends 1 ns after its last step.
_ITERATIONS = """
    WITH chosen AS ({chosen})
    SELECT
        step.rank,
        LEAST(MIN(step.ts), MIN(step.gpu_ts)) AS from_ts,
        GREATEST(MAX(step.ts + GREATEST(step.dur, 0)), MAX(step.gpu_ts + step.gpu_dur)) + 1 AS to_ts
    FROM source.step
    INNER JOIN source.aligned_step USING (step_id)
    INNER JOIN chosen USING (iteration)
    GROUP BY {each}
    HAVING from_ts IS NOT NULL
"""
_OF_STEPS = """
    SELECT DISTINCT iteration FROM source.aligned_step WHERE step_id BETWEEN $first AND $last
"""
# The phase of an iteration is that on its lowest rank.
_SAMPLED = """
    SELECT iteration
    FROM (
        SELECT iteration, arg_min(COALESCE(phase, ''), step.rank) AS phase
        FROM source.step
        INNER JOIN source.aligned_step USING (step_id)
        GROUP BY iteration
    )
    QUALIFY (ROW_NUMBER() OVER (PARTITION BY phase ORDER BY iteration) - 1) % $sample = 0
"""
# Windows of a rank that meet or overlap become one, as nothing may be in two of them.
_CREATE = """
    CREATE TABLE internal.excerpt_window AS
    WITH asked AS ({asked}),
    marked AS (
        SELECT *, COALESCE(from_ts > MAX(to_ts) OVER (
            PARTITION BY rank ORDER BY from_ts, to_ts
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), TRUE) AS is_new
        FROM asked
    ),
    numbered AS (
        SELECT
            *,
            SUM(is_new::BIGINT) OVER (
                PARTITION BY rank ORDER BY from_ts, to_ts ROWS UNBOUNDED PRECEDING
            ) AS place
        FROM marked
    ),
    merged AS (
        SELECT rank, MIN(from_ts) AS from_ts, MAX(to_ts) AS to_ts FROM numbered GROUP BY rank, place
    ),
    allowed AS ({allowed})
    SELECT
        ROW_NUMBER() OVER (ORDER BY rank, from_ts) - 1 AS number,
        rank,
        from_ts AS ts,
        to_ts - from_ts AS dur
    FROM allowed
    ORDER BY number
"""
_OF_RUN = "FROM merged"
_OF_EXCERPT = """
    SELECT
        merged.rank,
        GREATEST(merged.from_ts, own.ts) AS from_ts,
        LEAST(merged.to_ts, own.ts + own.dur) AS to_ts
    FROM merged
    INNER JOIN source.excerpt_window AS own
        ON merged.rank = own.rank AND merged.from_ts < own.ts + own.dur AND merged.to_ts > own.ts
"""
_STEP_RANGES = """
    SELECT rank, MIN(step_id), MAX(step_id) FROM source.step GROUP BY rank ORDER BY rank
"""
_MOST_RANGES = 4  # that a message names


@dataclass(frozen=True)
class Extent:
    """The time of the first event of a recording and of the end of the last one, ns."""

    first_ts: int
    last_ts: int

    def __str__(self) -> str:
        return f"{seconds(self.first_ts)} to {seconds(self.last_ts)}"


def extent_of_source(con: duckdb.DuckDBPyConnection, name: str) -> Extent:
    """When the attached source begins and ends.

    Raises:
        TraceqlError: nothing in it has a time.
    """
    ((first, last),) = con.execute(_EXTENT).fetchall()
    if first is None:
        raise TraceqlError(f"{name} has no events, so there is nothing to cut out of it")
    return Extent(first, last)


def create_windows(
    con: duckdb.DuckDBPyConnection, choice: Choice, extent: Extent, *, of_excerpt: bool
) -> None:
    """Creates the table excerpt_window: number, rank, ts, dur; those of a rank do not overlap.

    Raises:
        TraceqlError: there is no such time or step; the message says what there is.
    """
    asked, parameters = _asked(con, choice, extent)
    allowed = _OF_EXCERPT if of_excerpt else _OF_RUN
    con.execute(_CREATE.format(asked=asked, allowed=allowed), parameters)


def _asked(
    con: duckdb.DuckDBPyConnection, choice: Choice, extent: Extent
) -> tuple[str, dict[str, int]]:
    if choice.steps is not None:
        first, last = choice.steps
        _require_steps(con, first, last)
        of_steps = _ITERATIONS.format(chosen=_OF_STEPS, each="step.rank")
        return of_steps, {"first": first, "last": last}
    if choice.sample is not None:
        if not con.execute("FROM source.step WHERE source <> 'trace' LIMIT 1").fetchall():
            raise TraceqlError("the recording has no steps to sample; give --from and --to")
        sampled = _ITERATIONS.format(chosen=_SAMPLED, each="step.rank, iteration")
        return sampled, {"sample": choice.sample}
    start = extent.first_ts if choice.from_ns is None else choice.from_ns
    end = extent.last_ts + 1 if choice.to_ns is None else choice.to_ns
    if start > extent.last_ts or end <= extent.first_ts or start >= end:
        before = "" if choice.to_ns is None else f" before {seconds(end)}"
        raise TraceqlError(f"nothing from {seconds(start)} on{before}: there is {extent}")
    return _SPAN, {"from_ns": start, "to_ns": min(end, extent.last_ts + 1)}


def _require_steps(con: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
    ranges = con.execute(_STEP_RANGES).fetchall()
    known = con.execute(
        "SELECT step_id FROM source.step WHERE step_id IN ($first, $last)",
        {"first": first, "last": last},
    ).fetchall()
    for step in (first, last):
        if (step,) not in known:
            there = ", ".join(f"{a} to {b} (rank {rank})" for rank, a, b in ranges[:_MOST_RANGES])
            more = ", ..." if len(ranges) > _MOST_RANGES else ""
            raise TraceqlError(
                f"no step {step}; there are steps {there}{more}"
                if ranges
                else f"no step {step}: the recording has no steps; give --from and --to"
            )
