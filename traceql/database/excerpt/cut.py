"""Cuts an excerpt out of a database: a smaller database of the same tables, views and macros."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from traceql.database.excerpt.choice import Choice
from traceql.database.excerpt.description import describe
from traceql.database.excerpt.overlap import Overlap, overlap_with_windows
from traceql.database.excerpt.rows import (
    CHOSEN,
    CUT_LAYERS,
    EDGE_KERNELS,
    in_order,
    lost_time_rows,
    queue_rows,
    rows_of,
)
from traceql.database.excerpt.slices import find_slices, insert_slices
from traceql.database.excerpt.windows import create_windows, extent_of_source
from traceql.database.loading.draft import cannot_write, limit_deriving, open_draft
from traceql.database.loading.first_use import LOADED
from traceql.database.opening import attach_flat, excerpt_in, opened_database
from traceql.database.tables import complete_database
from traceql.errors import DatabaseError, TraceqlError
from traceql.sql.definition import Definition, Kind, comments
from traceql.sql.execute import create_sources, make_tables
from traceql.sql.registry import definitions
from traceql.util.drafts import draft_folder
from traceql.util.files import target_of, whole_file
from traceql.util.memory import memory_bytes

# A window inside a kernel or a gap has no event that begins, but a state of its device.
_ANYTHING = """
    SELECT 1 FROM slice
    UNION ALL SELECT 1 FROM device_state
    UNION ALL SELECT 1 FROM counter
    UNION ALL SELECT 1 FROM instant
    UNION ALL SELECT 1 FROM memory
    LIMIT 1
"""


def cut(source: str | Path, output: str | Path, choice: Choice) -> str:
    """Writes an excerpt of a database into a database of its own, completely or not at all.

    Args:
        source: a database, which may be an excerpt itself.
        output: the file; an excerpt that is there is replaced, another database is not.
        choice: which part of the run.

    Returns:
        One line that says which part it is.

    Raises:
        TraceqlError: nothing was written; the message says what the source has instead.
    """
    database, target = Path(source), Path(output)
    with _opened(database) as of_excerpt:
        pass
    _require_free(database, target)
    with _draft(target) as draft:
        try:
            with (
                complete_database(database) as file,
                open_draft(draft, budget_bytes=memory_bytes(None)) as con,
            ):
                attach_flat(con, file, "source")
                text = _write(con, database, choice, of_excerpt=of_excerpt)
                con.execute("DETACH source; DETACH file_of_source")
        except (duckdb.Error, OSError) as error:
            raise cannot_write(target, error) from None
    return text


@contextmanager
def _opened(database: Path) -> Iterator[bool]:
    """Whether the database is an excerpt, while it is open; it is checked to be of this version."""
    if not database.is_file():
        raise DatabaseError(f"{database} is no file; name a database that traceql load made")
    con = opened_database(database, otherwise="name a database that traceql load made")
    try:
        yield excerpt_in(con) is not None
    finally:
        con.close()


def _require_free(database: Path, target: Path) -> None:
    """Raises TraceqlError if something else than an older excerpt would be replaced."""
    if not target.exists() or target.is_dir():
        return
    if os.path.realpath(target) == os.path.realpath(database):
        raise TraceqlError(f"{target} is the database itself; name another file with -o")
    log = target_of(target).with_name(f"{target_of(target).name}.wal")
    if log.exists():
        raise TraceqlError(f"{target} is open in another program; close it, or name another file")
    try:
        with _opened(target) as is_excerpt:
            pass
    except DatabaseError:
        is_excerpt = False
    if not is_excerpt:
        raise TraceqlError(f"{target} exists and is no excerpt; name another file with -o")


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """The path of a new file that replaces the target after the block.

    Its name becomes that of a catalog, which no attached database may have too.
    """
    with (
        draft_folder(target_of(target).parent) as folder,
        whole_file(target, draft=folder / "new.duckdb", may_replace_database=True) as draft,
    ):
        yield draft


def _write(
    con: duckdb.DuckDBPyConnection, database: Path, choice: Choice, *, of_excerpt: bool
) -> str:
    create_sources(con)
    extent = extent_of_source(con, database.name)
    create_windows(con, choice, extent, of_excerpt=of_excerpt)
    if not con.execute("FROM excerpt_window LIMIT 1").fetchall():
        raise TraceqlError(
            f"nothing of that is in {database.name}, which is an excerpt with parts of {extent} "
            "(traceql sql 'FROM internal.excerpt_window' lists them)"
        )
    _fill(con, overlap_with_windows(con), of_excerpt=of_excerpt)
    if not con.execute(_ANYTHING).fetchall():
        raise TraceqlError(f"no event begins or lasts in that window: there is {extent}")
    text = describe(con, choice, database.name, extent, of_excerpt=of_excerpt)
    at_once = limit_deriving(con, memory_bytes(None))
    make_tables(con, LOADED, at_once=at_once)  # those of every database that have no rule
    return text


def _fill(con: duckdb.DuckDBPyConnection, overlap: Overlap, *, of_excerpt: bool) -> None:
    """Makes the tables that are cut out of the source; the ledger stays empty.

    All others are made of these when something first needs them, like those of any database.
    """
    known = definitions()
    con.execute(CHOSEN.format(begun_kernels=overlap.begun("source.kernel")))
    con.execute(CUT_LAYERS)
    find_slices(con, overlap)
    con.begin()  # a commit for each table would take longer
    for one in in_order(known):
        _insert(con, one, rows_of(one, overlap))
        if one.name == "activity":
            insert_slices(con, overlap, of_excerpt=of_excerpt)
        elif one.name == "device_timeline":
            con.execute(EDGE_KERNELS)
    con.commit()
    lost_time, queue = known["lost_time"], known["launch_queue"]
    _insert(con, lost_time, lost_time_rows(lost_time, known["straggler"]))
    _insert(con, queue, queue_rows(queue, overlap, of_excerpt=of_excerpt))


def _insert(con: duckdb.DuckDBPyConnection, one: Definition, rows: str) -> None:
    if one.kind is Kind.SOURCE:
        con.execute(f"INSERT INTO {one.name} {rows}")
    else:
        place = f"{one.schema}.{one.name}"
        con.execute(f"CREATE TABLE {place} AS {rows}")
        con.execute(comments(one, place))
