# One row per rank: the profiler that recorded it, and when.
# @scope  rank
# @needs  recording_span, trace
# @column rank        BIGINT   Rank.
# @column profiler    VARCHAR  Name of the profiler, with its version and options as far as the file has them; NULL if it does not name the profiler.
# @column world_size  BIGINT  Number of ranks of the job, as the file states it; NULL if it does not.
# @column first_ns    BIGINT   Time of the first event with a possible time by the clock of the file, ns: Unix time, or since the start of the machine; NULL without events.
# @column last_ns     BIGINT   Time of the last end of an event by that clock, ns; NULL without events.

"""Reads the name and the times of each profiler with the dialect of its file."""

import duckdb
import pyarrow as pa

from traceql.readers.dialects.registry import loaded_facts
from traceql.sql.definition import declared_schema

_FILES = """
    SELECT
        trace.rank,
        trace.dialect,
        trace.metadata,
        span.first_ts - trace.file_offset_ns,
        span.last_ts - trace.file_offset_ns
    FROM trace
    LEFT JOIN recording_span AS span ON trace.rank = span.rank
    WHERE trace.rank IS NOT NULL
    ORDER BY trace.rank
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    listed = []
    for rank, dialect, metadata, first, last in con.execute(_FILES).fetchall():
        facts = loaded_facts(dialect, metadata)
        base = facts.base_time_ns or 0
        listed.append(
            {
                "rank": rank,
                "profiler": facts.profiler or None,
                "world_size": facts.world_size,
                "first_ns": None if first is None else base + first,
                "last_ns": None if last is None else base + last,
            }
        )
    return pa.Table.from_pylist(listed, declared_schema(__file__))
