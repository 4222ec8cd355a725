"""The slices of an excerpt: those that begin in a window, and what of others is open in one."""

import duckdb

from traceql.database.excerpt.overlap import Overlap

# Those that begin in a window. A kernel keeps its duration; another slice is cut where the window
# ends, and is open in the next one, so that host time adds up.
_BEGUN = """
    CREATE TEMP TABLE begun_slice AS
    SELECT id, parent_id, number, to_ts FROM ({begun})
"""
_OPEN = """
    CREATE TEMP TABLE found_open AS
    SELECT id, parent_id, number, from_ts, to_ts, ts, dur FROM ({open});
    -- A slice that is in several windows has a row in each: the first one keeps its id.
    CREATE TEMP TABLE open_slice AS
    SELECT
        id AS slice_id,
        parent_id,
        number,
        from_ts AS ts,
        LEAST(ts + dur, to_ts) - from_ts AS dur,
        CASE
            WHEN is_first THEN id
            ELSE {first_id} + ROW_NUMBER() OVER (PARTITION BY is_first ORDER BY id, number)
        END AS id
    FROM (
        SELECT
            *,
            NOT EXISTS (FROM begun_slice WHERE begun_slice.id = found_open.id)
            AND number = MIN(number) OVER (PARTITION BY id) AS is_first
        FROM found_open
        WHERE id NOT IN (
            SELECT activity.id
            FROM source.activity AS activity
            SEMI JOIN found_open ON activity.id = found_open.id
        )
    );
    DROP TABLE found_open
"""
_LAST_ID = """
    SELECT COALESCE(MAX(id), 0)
    FROM (SELECT id FROM source.slice UNION ALL SELECT id FROM source.launch)
"""
_PARENT = """
    LEFT JOIN open_slice AS around
        ON each.parent_id = around.slice_id AND each.number = around.number
    LEFT JOIN begun_slice AS beside ON each.parent_id = beside.id AND each.number = beside.number
"""
_INSERT = f"""
    INSERT INTO slice
    SELECT open.* REPLACE (
        each.id AS id, each.ts AS ts, each.dur AS dur, COALESCE(around.id, beside.id) AS parent_id
    )
    FROM source.slice AS open
    INNER JOIN open_slice AS each ON open.id = each.slice_id
    {_PARENT}
    ORDER BY each.id;
    INSERT INTO slice
    SELECT own.* REPLACE (
        CASE
            WHEN own.id IN (SELECT id FROM activity) THEN own.dur
            ELSE LEAST(own.ts + own.dur, each.to_ts) - own.ts
        END AS dur,
        COALESCE(around.id, beside.id) AS parent_id
    )
    FROM source.slice AS own
    INNER JOIN begun_slice AS each ON own.id = each.id
    {_PARENT}
    WHERE own.ts >= {{first_ts}} AND own.ts < {{last_ts}}
    ORDER BY own.id
"""
# The slices that an edge cut, as they were recorded; of an excerpt, those that it knows.
_PIECES = """
    CREATE TABLE internal.excerpt_piece AS
    SELECT slice.id, source_slice.id AS slice_id, source_slice.ts, source_slice.dur
    FROM slice
    INNER JOIN (
        SELECT id, slice_id FROM open_slice UNION ALL SELECT id, id FROM begun_slice
    ) AS origin USING (id)
    INNER JOIN source.slice AS source_slice ON origin.slice_id = source_slice.id
    WHERE slice.ts <> source_slice.ts OR slice.dur <> source_slice.dur
    ORDER BY slice.id
"""
_PIECES_AGAIN = """
    CREATE OR REPLACE TABLE internal.excerpt_piece AS
    SELECT
        slice.id,
        COALESCE(before.slice_id, piece.slice_id, slice.id) AS slice_id,
        COALESCE(before.ts, piece.ts) AS ts,
        COALESCE(before.dur, piece.dur) AS dur
    FROM slice
    LEFT JOIN excerpt_piece AS piece USING (id)
    LEFT JOIN source.excerpt_piece AS before ON COALESCE(piece.slice_id, slice.id) = before.id
    WHERE piece.id IS NOT NULL OR before.id IS NOT NULL
    ORDER BY slice.id
"""


def find_slices(con: duckdb.DuckDBPyConnection, overlap: Overlap) -> None:
    """Lists the slices that begin in a window, and those that are open when one begins."""
    ((last_id,),) = con.execute(_LAST_ID).fetchall()
    con.execute(_BEGUN.format(begun=overlap.begun("source.slice")))
    con.execute(_OPEN.format(open=overlap.open("source.slice"), first_id=last_id))


def insert_slices(con: duckdb.DuckDBPyConnection, overlap: Overlap, *, of_excerpt: bool) -> None:
    """Fills the tables slice and excerpt_piece; table activity has the kernels that were kept."""
    bounds = {"first_ts": overlap.first_ts, "last_ts": overlap.last_ts}
    con.execute(_INSERT.format(**bounds))
    con.execute(_PIECES)
    if of_excerpt:
        con.execute(_PIECES_AGAIN)
