"""Describes an excerpt: the table excerpt, and its rows in the ledger."""

from collections.abc import Mapping
from typing import Any

import duckdb

from traceql.database.excerpt.windows import ExcerptSelection, Extent, format_seconds
from traceql.database.opening import EXCERPT_TABLE
from traceql.sql.definition import described

_WHOLE = "whole run: "  # prefix of notes about the whole recording
_COUNTED = """
    SELECT
        COUNT(*) FILTER (kept) AS kernels,
        COUNT(*) AS all_kernels,
        CAST(COALESCE(SUM(dur) FILTER (kept), 0) AS BIGINT) AS kernel_ns,
        CAST(COALESCE(SUM(dur), 0) AS BIGINT) AS all_kernel_ns
    FROM (SELECT dur, id IN (SELECT id FROM kept_kernel) AS kept FROM source.kernel)
"""
_WINDOWS = """
    SELECT
        MIN(ts) AS first_ts,
        MAX(ts + dur) AS last_ts,
        COUNT(DISTINCT number) AS windows,
        (SELECT MAX(ns) FROM (SELECT SUM(dur) AS ns FROM excerpt_window GROUP BY rank)) AS ns
    FROM excerpt_window
"""
_STEPS = """
    SELECT
        (SELECT COUNT(*) FROM step) AS steps,
        (SELECT COUNT(*) FROM source.step) AS all_steps,
        (SELECT COUNT(DISTINCT iteration) FROM aligned_step) AS iterations,
        (SELECT COUNT(DISTINCT iteration) FROM source.aligned_step) AS all_iterations
"""
_TABLE = {
    "source": ("VARCHAR", "Name of the database of the whole run."),
    "options": ("VARCHAR", "Options of the command line that chose the excerpt."),
    "text": ("VARCHAR", "What the excerpt has, in one line."),
    "windows": ("BIGINT", "Number of windows, of all ranks together (table excerpt_window)."),
    "kernels": ("BIGINT", "GPU activities in the excerpt."),
    "all_kernels": ("BIGINT", "GPU activities of the whole run."),
    "kernel_ns": ("BIGINT", "Total duration of the GPU activities in the excerpt, ns."),
    "all_kernel_ns": ("BIGINT", "Total duration of the GPU activities of the whole run, ns."),
    "steps": ("BIGINT", "Steps that the excerpt has whole; of others it has events, but no step."),
    "all_steps": ("BIGINT", "Steps of the whole run."),
    "first_ts": ("BIGINT", "Start of the recording of the whole run, ns since its first event."),
    "last_ts": ("BIGINT", "End of the recording of the whole run, ns since its first event."),
}
_DESCRIBED = (
    described(
        "TABLE",
        EXCERPT_TABLE,
        "One row: which part of a run this database has.",
        {name: text for name, (_, text) in _TABLE.items()},
    ),
    described(
        "TABLE",
        "excerpt_window",
        "One row per rank and window: the events that begin in it are in this database.",
        {
            "number": "Number of the window, from 0.",
            "rank": "Rank.",
            "ts": "Start, ns since the run's first event.",
            "dur": "Duration, ns.",
        },
    ),
    described(
        "TABLE",
        "excerpt_piece",
        "One row per slice that the edge of a window cuts: how it was recorded.",
        {
            "id": "Slice of this database (slice.id).",
            "slice_id": "Its id in the database of the whole run.",
            "ts": "Its start as recorded, ns since the run's first event.",
            "dur": "Its duration as recorded, ns.",
        },
    ),
)
_LEDGER = f"""
    INSERT INTO ledger
    SELECT
        trace.rank,
        '{EXCERPT_TABLE}',
        COALESCE(kept.kernels, 0),
        every.kernels, NULL,
        (SELECT text FROM {EXCERPT_TABLE})
    FROM source.trace
    LEFT JOIN (SELECT rank, COUNT(*) AS kernels FROM kernel GROUP BY rank) AS kept USING (rank)
    LEFT JOIN ({{all_kernels}}) AS every USING (rank)
    WHERE trace.rank IS NOT NULL
    ORDER BY trace.rank;
    INSERT INTO ledger
    SELECT * REPLACE (
        CASE WHEN starts_with(note, '{_WHOLE}') THEN note ELSE '{_WHOLE}' || note END AS note
    )
    FROM file_of_source.main.ledger
    WHERE check_name NOT IN ('{EXCERPT_TABLE}', 'idle in gaps')
    ORDER BY rowid;
    INSERT INTO ledger
    SELECT
        rank,
        'idle in gaps',
        COALESCE(in_gaps.ns, 0),
        idle.ns,
        COALESCE(in_gaps.ns, 0) = idle.ns,
        'total duration of the gaps; idle time of time.breakdown, ns'
    FROM (
        SELECT
            rank,
            CAST(COALESCE(SUM(dur) FILTER (NOT (compute OR comm OR copy)), 0) AS BIGINT) AS ns
        FROM device_state
        GROUP BY rank
    ) AS idle
    LEFT JOIN (SELECT rank, CAST(SUM(dur) AS BIGINT) AS ns FROM gap GROUP BY rank) AS in_gaps
        USING (rank)
    ORDER BY rank
"""
_KERNELS = "SELECT rank, COUNT(*) AS kernels FROM source.kernel GROUP BY rank"
_KERNELS_OF_RUN = "SELECT rank, total AS kernels FROM source.ledger WHERE check_name = 'excerpt'"


def describe(
    con: duckdb.DuckDBPyConnection,
    selection: ExcerptSelection,
    name: str,
    extent: Extent,
    *,
    of_excerpt: bool,
) -> str:
    """Writes the table excerpt and the ledger; returns one line about the excerpt."""
    facts = _row(con, _COUNTED) | _row(con, _STEPS) | _row(con, _WINDOWS)
    shown = facts | {"source": name, "options": selection.options}
    recorded = {"first_ts": extent.first_ts, "last_ts": extent.last_ts}
    if of_excerpt:
        whole = _row(con, "FROM source.excerpt")
        totals = ("source", "all_kernels", "all_kernel_ns", "all_steps")
        shown |= {key: whole[key] for key in totals}
        recorded = {key: whole[key] for key in recorded}
        shown["options"] = f"{whole['options']}, then {selection.options}"
    text = _text(selection, shown, Extent(**recorded), of_excerpt=of_excerpt)
    shown |= {**recorded, "text": text}
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in _TABLE.items())
    con.execute(f"CREATE TABLE internal.{EXCERPT_TABLE} ({columns})")
    values = [shown[name] for name in _TABLE]
    con.execute(f"INSERT INTO {EXCERPT_TABLE} VALUES ({', '.join('?' * len(values))})", values)
    all_kernels = _KERNELS_OF_RUN if of_excerpt else _KERNELS
    con.execute(_LEDGER.format(all_kernels=all_kernels))
    for comments in _DESCRIBED:
        con.execute(comments)
    return text


def _row(con: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    found = con.execute(sql)
    names = [column[0] for column in found.description or ()]
    return dict(zip(names, found.fetchall()[0], strict=True))


def _text(
    selection: ExcerptSelection, shown: Mapping[str, Any], recorded: Extent, *, of_excerpt: bool
) -> str:
    whole = format_seconds(recorded.last_ts - recorded.first_ts)
    span = f"{format_seconds(shown['first_ts'])} to {format_seconds(shown['last_ts'])} of {whole}"
    what = span
    if selection.steps is not None:
        first, last = selection.steps
        what = f"{f'step {first}' if first == last else f'steps {first} to {last}'}, {span}"
    elif selection.sample is not None:
        what = (
            f"one of {selection.sample} iterations of each phase, {shown['iterations']:,} of "
            f"{shown['all_iterations']:,}, {format_seconds(shown['ns'])} of {whole}"
        )
    again = "an excerpt of " if of_excerpt else ""
    return (
        f"excerpt of {again}{shown['source']}: {what}: "
        f"{shown['kernels']:,} of {shown['all_kernels']:,} kernels "
        f"({_percent(shown['kernels'], shown['all_kernels'])}), "
        f"{_percent(shown['kernel_ns'], shown['all_kernel_ns'])} of the GPU time, "
        f"{shown['steps']:,} of {shown['all_steps']:,} steps whole"
    )


def _percent(part: int, whole: int) -> str:
    if not whole:
        return "0 %"
    share = 100 * part / whole
    return f"{share:.1f} %" if share >= 1 else f"{share:.2g} %"
