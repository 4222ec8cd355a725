"""The selection of an excerpt, and its time windows per rank."""

import re
from dataclasses import dataclass
from decimal import Decimal

import duckdb

from traceql.errors import TraceqlError

_PLACES = {"": 9, "s": 9, "ms": 6, "us": 3, "µs": 3, "μs": 3, "ns": 0}  # both letters mu
_TIME = re.compile(r"\s*(\d[\d,]*(?:\.\d*)?|\.\d+)\s*([a-zµμ]*)\s*", re.IGNORECASE)


def nanoseconds(text: str) -> int:
    """A time such as 12.5s, 12.5 (seconds), 12,500 ms or 40us, in ns.

    Raises TraceqlError if it is not a time, or not a whole number of ns.
    """
    found = _TIME.fullmatch(text)
    places = _PLACES.get(found[2].lower()) if found else None
    if found is None or places is None:
        raise TraceqlError(
            f"'{text}' is not a time; write a number with s, ms, us or ns, such as 12.5s "
            "(without a unit, seconds)"
        )
    ns = Decimal(found[1].replace(",", "")).scaleb(places)
    if ns != int(ns):
        raise TraceqlError(f"'{text}' is not a whole number of ns")
    return int(ns)


def format_seconds(ns: int) -> str:
    """A time in seconds to the microsecond, with at least three decimals: 12.500 s."""
    whole, rest = divmod((ns + 500) // 1000, 10**6)
    digits = f"{rest:06d}".rstrip("0").ljust(3, "0")
    return f"{whole:,}.{digits} s"


def format_option(ns: int) -> str:
    """An exact time for an option: 12.5s, 250us, 7ns."""
    if ns % 10**6 == 0:
        return f"{Decimal(ns).scaleb(-9).normalize():f}s"
    return f"{ns // 1000}us" if ns % 1000 == 0 else f"{ns}ns"


_STEPS = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


@dataclass(frozen=True)
class ExcerptSelection:
    """A span of time, steps, or a sample.

    Attributes:
        from_ns: start of the span, ns since the run's first event; None for the first event.
        to_ns: its exclusive end; None for the end of the recording.
        steps: the first and the last step (step.step_id).
        sample: N selects every Nth iteration of each phase.

    Raises:
        TraceqlError: none or several of them are set, or the selection is empty.
    """

    from_ns: int | None = None
    to_ns: int | None = None
    steps: tuple[int, int] | None = None
    sample: int | None = None

    def __post_init__(self) -> None:
        is_span = self.from_ns is not None or self.to_ns is not None
        if [is_span, self.steps is not None, self.sample is not None].count(True) != 1:
            raise TraceqlError(
                "select a part: --from and --to, or --steps, or --sample; one of the three"
            )
        if self.from_ns is not None and self.to_ns is not None and self.from_ns >= self.to_ns:
            raise TraceqlError(
                f"the window is empty: from {format_option(self.from_ns)} to "
                f"{format_option(self.to_ns)}"
            )
        if self.steps is not None and self.steps[0] > self.steps[1]:
            raise TraceqlError(
                f"no steps from {self.steps[0]} to {self.steps[1]}; name the lower one first"
            )
        if self.sample is not None and self.sample < 1:
            raise TraceqlError(f"a sample of every {self.sample}th iteration; give a number from 1")

    @property
    def options(self) -> str:
        """The equivalent options of the command line."""
        if self.steps is not None:
            first, last = self.steps
            return f"--steps {first}" if first == last else f"--steps {first}-{last}"
        if self.sample is not None:
            return f"--sample {self.sample}"
        start = "" if self.from_ns is None else f"--from {format_option(self.from_ns)}"
        end = "" if self.to_ns is None else f"--to {format_option(self.to_ns)}"
        return f"{start} {end}".strip()


def parse_selection(
    start: str | None, end: str | None, steps: str | None, sample: int | None
) -> ExcerptSelection | None:
    """The selection of the options --from, --to, --steps and --sample; None without options.

    Raises TraceqlError if a value cannot be read, or they contradict each other.
    """
    if start is None and end is None and steps is None and sample is None:
        return None
    from_ns, to_ns = (None if time is None else nanoseconds(time) for time in (start, end))
    if steps is None:
        return ExcerptSelection(from_ns, to_ns, sample=sample)
    found = _STEPS.fullmatch(steps)
    if found is None:
        raise TraceqlError(
            f"'{steps}' is neither a step nor a range of steps; write 100 or 100-110"
        )
    return ExcerptSelection(from_ns, to_ns, (int(found[1]), int(found[2] or found[1])), sample)


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
    WHERE rank IS NOT NULL
"""
# An event that ends a step may have no duration; so a window ends 1 ns after its last step.
_ITERATIONS = """
    WITH selected AS ({selected})
    SELECT
        step.rank,
        LEAST(MIN(step.ts), MIN(step.gpu_ts)) AS from_ts,
        GREATEST(MAX(step.ts + GREATEST(step.dur, 0)), MAX(step.gpu_ts + step.gpu_dur)) + 1 AS to_ts
    FROM source.step
    INNER JOIN source.aligned_step USING (step_id)
    INNER JOIN selected USING (iteration)
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
# Windows of a rank that touch or overlap are merged, so that no row is in two of them.
_CREATE = """
    CREATE TABLE internal.excerpt_window AS
    WITH of_ranks AS ({requested}),
    -- Host processes have the windows of all ranks.
    requested AS (
        FROM of_ranks
        UNION ALL
        SELECT NULL, from_ts, to_ts
        FROM of_ranks
        WHERE EXISTS (FROM source.trace WHERE rank IS NULL)
    ),
    marked AS (
        SELECT *, COALESCE(from_ts > MAX(to_ts) OVER (
            PARTITION BY rank ORDER BY from_ts, to_ts
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), TRUE) AS is_new
        FROM requested
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
_OF_EXCERPT = """
    SELECT
        merged.rank,
        GREATEST(merged.from_ts, own.ts) AS from_ts,
        LEAST(merged.to_ts, own.ts + own.dur) AS to_ts
    FROM merged
    INNER JOIN source.excerpt_window AS own
        ON merged.rank IS NOT DISTINCT FROM own.rank
        AND merged.from_ts < own.ts + own.dur
        AND merged.to_ts > own.ts
"""
_STEP_RANGES = """
    SELECT rank, MIN(step_id), MAX(step_id) FROM source.step GROUP BY rank ORDER BY rank
"""
_MOST_RANGES = 4  # in a message


@dataclass(frozen=True)
class Extent:
    """The time of the first event of a recording and of the end of the last one, ns."""

    first_ts: int
    last_ts: int

    def __str__(self) -> str:
        return f"{format_seconds(self.first_ts)} to {format_seconds(self.last_ts)}"


def extent_of_source(con: duckdb.DuckDBPyConnection, name: str) -> Extent:
    """Start and end of the attached source; raises TraceqlError if it has no events."""
    ((first, last),) = con.execute(_EXTENT).fetchall()
    if first is None:
        raise TraceqlError(f"{name} has no events, so there is nothing to cut out of it")
    return Extent(first, last)


def create_windows(
    con: duckdb.DuckDBPyConnection, selection: ExcerptSelection, extent: Extent, *, of_excerpt: bool
) -> None:
    """Creates the table excerpt_window: number, rank, ts, dur, without overlap in a rank.

    Raises TraceqlError if there is no such time or step.
    """
    requested, parameters = _requested(con, selection, extent)
    allowed = _OF_EXCERPT if of_excerpt else "FROM merged"
    con.execute(_CREATE.format(requested=requested, allowed=allowed), parameters)


def _requested(
    con: duckdb.DuckDBPyConnection, selection: ExcerptSelection, extent: Extent
) -> tuple[str, dict[str, int]]:
    if selection.steps is not None:
        first, last = selection.steps
        _require_steps(con, first, last)
        of_steps = _ITERATIONS.format(selected=_OF_STEPS, each="step.rank")
        return of_steps, {"first": first, "last": last}
    if selection.sample is not None:
        if not con.execute("FROM source.step WHERE source <> 'trace' LIMIT 1").fetchall():
            raise TraceqlError("the recording has no steps to sample; give --from and --to")
        sampled = _ITERATIONS.format(selected=_SAMPLED, each="step.rank, iteration")
        return sampled, {"sample": selection.sample}
    start = extent.first_ts if selection.from_ns is None else selection.from_ns
    end = extent.last_ts + 1 if selection.to_ns is None else selection.to_ns
    if start > extent.last_ts or end <= extent.first_ts or start >= end:
        before = "" if selection.to_ns is None else f" before {format_seconds(end)}"
        raise TraceqlError(f"nothing from {format_seconds(start)} on{before}: there is {extent}")
    return _SPAN, {"from_ns": start, "to_ns": min(end, extent.last_ts + 1)}


def _require_steps(con: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
    ranges = con.execute(_STEP_RANGES).fetchall()
    for step in (first, last):
        if not con.execute(f"FROM source.step WHERE step_id = {step} LIMIT 1").fetchall():
            there = ", ".join(f"{a} to {b} (rank {rank})" for rank, a, b in ranges[:_MOST_RANGES])
            more = ", ..." if len(ranges) > _MOST_RANGES else ""
            raise TraceqlError(
                f"no step {step}; there are steps {there}{more}"
                if ranges
                else f"no step {step}: the recording has no steps; give --from and --to"
            )
