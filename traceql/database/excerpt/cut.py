"""Cuts an excerpt out of a database: a smaller database of the same tables."""

import os
from contextlib import closing, suppress
from pathlib import Path

import duckdb

from traceql.database.excerpt.description import describe
from traceql.database.excerpt.rows import (
    CUT_LAYERS,
    EDGE_KERNELS,
    SELECTED,
    Overlap,
    in_order,
    lost_time_rows,
    overlap_with_windows,
    queue_rows,
    rows_of,
)
from traceql.database.excerpt.windows import ExcerptSelection, create_windows, extent_of_source
from traceql.database.loading.draft import LOADED, cannot_write, limit_deriving, open_draft
from traceql.database.opening import attach_flat, excerpt_in, opened_database
from traceql.database.tables import complete_database
from traceql.errors import DatabaseError, TraceqlError
from traceql.sql.definition import Definition, Kind, comments
from traceql.sql.execute import create_sources, make_tables
from traceql.sql.registry import definitions
from traceql.util.files import atomic_write, draft_folder, resolved_target
from traceql.util.process import memory_bytes

# Slices that begin in a window. A kernel keeps its duration; another slice is cut at the end of the
# window, and continues in the next one, so that host time adds up.
_BEGUN = """
    CREATE TEMP TABLE begun_slice AS
    SELECT id, parent_id, number, to_ts FROM ({begun})
"""
_OPEN = """
    CREATE TEMP TABLE found_open AS
    SELECT id, parent_id, number, from_ts, to_ts, ts, dur FROM ({open});
    -- A slice in several windows has a row in each; the first row keeps its id.
    CREATE TEMP TABLE open_slice AS
    SELECT
        id AS slice_id,
        parent_id, number,
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
# The original times of slices that an edge cuts; in an excerpt of an excerpt, as far as known.
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


# In a window inside a kernel or a gap no event begins, but its device has a state.
_ANYTHING = """
    SELECT 1 FROM slice
    UNION ALL SELECT 1 FROM device_state
    UNION ALL SELECT 1 FROM counter
    UNION ALL SELECT 1 FROM instant
    UNION ALL SELECT 1 FROM memory
    LIMIT 1
"""


def cut(source: str | Path, output: str | Path, selection: ExcerptSelection) -> str:
    """Writes an excerpt of a database into a new one, atomically; returns one line about it.

    An existing excerpt is replaced, another database is not.

    Raises:
        TraceqlError: nothing was written; the message says what the source has.
    """
    database, target = Path(source), Path(output)
    of_excerpt = _is_excerpt(database)
    _require_free(database, target)
    # The name of the draft becomes that of a catalog, which must differ from attached databases.
    with (
        draft_folder(resolved_target(target).parent) as folder,
        atomic_write(target, draft=folder / "new.duckdb", may_replace_database=True) as draft,
    ):
        try:
            with (
                complete_database(database) as file,
                open_draft(draft, budget_bytes=memory_bytes(None)) as con,
            ):
                attach_flat(con, file, "source")
                text = _write(con, database, selection, of_excerpt=of_excerpt)
                con.execute("DETACH source; DETACH file_of_source")
        except (duckdb.Error, OSError) as error:
            raise cannot_write(target, error) from None
    return text


def _is_excerpt(database: Path) -> bool:
    """Whether a database is an excerpt; raises DatabaseError if it is not of this version."""
    if not database.is_file():
        raise DatabaseError(f"{database} is not a file; name a database that traceql load made")
    otherwise = "name a database that traceql load made"
    with closing(opened_database(database, otherwise=otherwise)) as con:
        return excerpt_in(con) is not None


def _require_free(database: Path, target: Path) -> None:
    """Raises TraceqlError if the target is not an older excerpt."""
    if not target.exists() or target.is_dir():
        return
    if os.path.realpath(target) == os.path.realpath(database):
        raise TraceqlError(f"{target} is the database itself; name another file with -o")
    if Path(f"{resolved_target(target)}.wal").exists():
        raise TraceqlError(f"{target} is open in another program; close it, or name another file")
    with suppress(DatabaseError):
        if _is_excerpt(target):
            return
    raise TraceqlError(f"{target} exists and is not an excerpt; name another file with -o")


def _write(
    con: duckdb.DuckDBPyConnection, database: Path, selection: ExcerptSelection, *, of_excerpt: bool
) -> str:
    create_sources(con)
    extent = extent_of_source(con, database.name)
    create_windows(con, selection, extent, of_excerpt=of_excerpt)
    if not con.execute("FROM excerpt_window LIMIT 1").fetchall():
        raise TraceqlError(
            f"nothing of that is in {database.name}, which is an excerpt with parts of {extent} "
            "(traceql sql 'FROM internal.excerpt_window' lists them)"
        )
    _fill(con, overlap_with_windows(con), of_excerpt=of_excerpt)
    if not con.execute(_ANYTHING).fetchall():
        raise TraceqlError(f"no event begins or lasts in that window: there is {extent}")
    text = describe(con, selection, database.name, extent, of_excerpt=of_excerpt)
    at_once = limit_deriving(con, memory_bytes(None))
    make_tables(con, LOADED, at_once=at_once)  # those of every database that have no rule
    return text


def _fill(con: duckdb.DuckDBPyConnection, overlap: Overlap, *, of_excerpt: bool) -> None:
    """Makes the tables that are cut out of the source; the ledger stays empty.

    Other tables are made from these on first use, as in any database.
    """
    known = definitions()
    con.execute(SELECTED.format(begun_kernels=overlap.begun("source.kernel")))
    con.execute(CUT_LAYERS)
    ((last_id,),) = con.execute(_LAST_ID).fetchall()
    con.execute(_BEGUN.format(begun=overlap.begun("source.slice")))
    con.execute(_OPEN.format(open=overlap.open("source.slice"), first_id=last_id))
    con.begin()  # a commit for each table would take longer
    for one in in_order(known):
        _insert(con, one, rows_of(one, overlap))
        if one.name == "activity":
            con.execute(_INSERT.format(first_ts=overlap.first_ts, last_ts=overlap.last_ts))
            con.execute(_PIECES)
            if of_excerpt:
                con.execute(_PIECES_AGAIN)
        elif one.name == "device_timeline":
            con.execute(EDGE_KERNELS)
    con.commit()
    lost_time, queue = known["lost_time"], known["launch_queue"]
    _insert(con, lost_time, lost_time_rows(known))
    _insert(con, queue, queue_rows(queue, overlap, of_excerpt=of_excerpt))


def _insert(con: duckdb.DuckDBPyConnection, one: Definition, rows: str) -> None:
    if one.kind is Kind.SOURCE:
        con.execute(f"INSERT INTO {one.name} {rows}")
    else:
        place = f"{one.schema}.{one.name}"
        con.execute(f"CREATE TABLE {place} AS {rows}")
        con.execute(comments(one, place))
