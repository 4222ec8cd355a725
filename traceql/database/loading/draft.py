"""The draft of a database: a file that only this process writes, until it replaces the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from traceql.errors import DatabaseError
from traceql.sql.execute import search_path
from traceql.util.memory import deriving_bytes, writing_limits
from traceql.util.sql_text import literal

_AMPLE_BYTES = 4 << 30  # with less memory, tables are made one by one
_EVENTS = ("slice", "instant", "counter")
_FEW_EVENTS = 50_000  # for so few, threads take more time than they save
# A quarter of DuckDB's usual size: most tables have few rows.
_BLOCK_BYTES = 65536
# The threads that fill row groups pack them as soon as they are full. One thread packs what is left
# of all tables at the end, which is less if row groups are a quarter of DuckDB's usual size.
_ROW_GROUP = 15 * 2048


@contextmanager
def open_draft(draft: Path, *, budget_bytes: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that writes the draft, which is complete after the block.

    It finds the tables of all schemas by their names alone.

    Args:
        draft: a copy of a database, or a file that does not exist yet.
        budget_bytes: how much memory the whole command may use.
    """
    # A draft is complete or gone: it needs no log to be recovered from.
    options = f"RECOVERY_MODE no_wal_writes, ROW_GROUP_SIZE {_ROW_GROUP}"
    is_new = not draft.exists()
    if is_new:
        options += f", BLOCK_SIZE {_BLOCK_BYTES}"
    with duckdb.connect(config=writing_limits(draft, budget_bytes)) as con:
        con.execute(f"ATTACH {literal(draft)} AS draft ({options})")
        con.execute("USE draft" if is_new else f"SET search_path = {literal(search_path('draft'))}")
        con.execute("SET preserve_insertion_order = true")
        con.execute("SET checkpoint_threshold = '1 GiB'")  # one at the end instead of many
        yield con
        con.execute("CHECKPOINT")


def cannot_write(database: Path, error: duckdb.Error | OSError) -> DatabaseError:
    """What to raise if a draft could not be written.

    DuckDB says first that the draft is lost, which nobody has seen.
    """
    *_, reason = str(error).splitlines()[0].split(" Original error: ")
    return DatabaseError(f"cannot write {database}: {reason}")


def limit_deriving(con: duckdb.DuckDBPyConnection, budget_bytes: int) -> int:
    """Sets the memory and the threads to make tables with, by the number of events in a draft.

    Returns:
        How many tables to make at the same time.
    """
    counted = " + ".join(f"(SELECT COUNT(*) FROM {table})" for table in _EVENTS)
    events = int(con.execute(f"SELECT {counted}").fetchall()[0][0])
    con.execute(f"SET memory_limit = '{deriving_bytes(budget_bytes, events)}B'")
    if events < _FEW_EVENTS:
        con.execute("SET threads = 1")
        return 1
    return 2 if budget_bytes >= _AMPLE_BYTES else 1
