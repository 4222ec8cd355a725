"""Drafts: a database is written beside its place, and replaces it when it is complete."""

import os
import shlex
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import duckdb

from traceql.database.notices import Done
from traceql.database.opening import opened_database
from traceql.errors import DatabaseError, DatabaseReplaced
from traceql.sql.definition import Kind
from traceql.sql.execute import make_tables, present, search_path
from traceql.sql.registry import definitions
from traceql.util.files import (
    atomic_write,
    draft_folder,
    is_device,
    path_text,
    resolved_target,
    size_and_mtime,
)
from traceql.util.locks import locked
from traceql.util.process import deriving_bytes, memory_bytes, writer_settings
from traceql.util.text import literal


def require_no_log(database: Path) -> None:
    """Raises DatabaseError if a write-ahead log of DuckDB is beside the database.

    DuckDB cannot open a new file with the log of the old one.
    """
    for path in (database, Path(os.path.realpath(database))):
        log = path.with_name(f"{path.name}.wal")
        if log.exists() and not path.exists():
            raise DatabaseError(
                f"{log} is left of a database that is gone; remove it, or name another file with -o"
            )
        if log.exists():
            program = f"import duckdb; duckdb.connect({str(path)!r}).close()"
            raise DatabaseError(
                f"{log} has changes that are not in the database yet: a program has the database "
                "open, or was killed. Close that program; if there is none, bring the changes in "
                f"with python -c {shlex.quote(program)}"
            )


@contextmanager
def workspace(database: Path) -> Iterator[Path]:
    """An empty folder on the file system of `database`, which is removed at the end.

    It locks the database: another load waits, and then reads the database that the first wrote.

    Raises:
        DatabaseError: `database` is a folder or a device, its path is not UTF-8, or files cannot be
            created beside it.
    """
    if (shown := path_text(database)) != str(database):
        raise DatabaseError(f"{shown}: the path is not UTF-8; choose another place with -o")
    if database.is_dir():
        raise DatabaseError(f"{database} is a folder; name a file with -o")
    if is_device(database):
        raise DatabaseError(f"{database} is not a file; name a file with -o")
    with ExitStack() as stack:
        try:
            target = resolved_target(database)
            stack.enter_context(locked(target.with_name(f".{target.name}.loading.lock")))
            folder = stack.enter_context(draft_folder(target.parent))
        except OSError as error:
            raise DatabaseError(
                f"cannot write in {database.parent}: {error.strerror or error}; "
                "choose another place with -o"
            ) from None
        yield folder


_PARALLEL_BYTES = 4 << 30  # with less memory, tables are made one by one
_EVENTS = ("slice", "instant", "counter")
_FEW_EVENTS = 50_000  # below this number, threads take more time than they save
# A quarter of DuckDB's usual size: most tables have few rows.
_BLOCK_BYTES = 65536
# Threads compress row groups as soon as they are full. One thread compresses the rest of all tables
# at the end, which is less if row groups are a quarter of DuckDB's usual size.
_ROW_GROUP = 15 * 2048


@contextmanager
def open_draft(draft: Path, *, budget_bytes: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that writes the draft, which is complete after the block.

    The tables of all schemas are on its search path.

    Args:
        draft: a copy of a database, or a file that does not exist yet.
    """
    # An incomplete draft is deleted, so it needs no log for recovery.
    options = f"RECOVERY_MODE no_wal_writes, ROW_GROUP_SIZE {_ROW_GROUP}"
    is_new = not draft.exists()
    if is_new:
        options += f", BLOCK_SIZE {_BLOCK_BYTES}"
    with duckdb.connect(config=writer_settings(draft, budget_bytes)) as con:
        con.execute(f"ATTACH {literal(draft)} AS draft ({options})")
        con.execute("USE draft" if is_new else f"SET search_path = {literal(search_path('draft'))}")
        con.execute("SET preserve_insertion_order = true")
        con.execute("SET checkpoint_threshold = '1 GiB'")  # one at the end instead of many
        yield con
        con.execute("CHECKPOINT")


def cannot_write(database: Path, error: duckdb.Error | OSError) -> DatabaseError:
    """The error to raise if a draft could not be written; DuckDB's reason, without the draft."""
    *_, reason = str(error).splitlines()[0].split(" Original error: ")
    return DatabaseError(f"cannot write {database}: {reason}")


def limit_deriving(con: duckdb.DuckDBPyConnection, budget_bytes: int) -> int:
    """Sets memory and threads for making tables, by the number of events in a draft.

    Returns:
        How many tables to make in parallel.
    """
    counted = " + ".join(f"(SELECT COUNT(*) FROM {table})" for table in _EVENTS)
    events = int(con.execute(f"SELECT {counted}").fetchall()[0][0])
    con.execute(f"SET memory_limit = '{deriving_bytes(budget_bytes, events)}B'")
    if events < _FEW_EVENTS:
        con.execute("SET threads = 1")
        return 1
    return 2 if budget_bytes >= _PARALLEL_BYTES else 1


# The tables that every load makes, and recorder for its summary.
LOADED = (
    *("trace", "run", "slice", "instant", "flow", "counter", "track", "launch", "kernel", "step"),
    *("layer", "gap", "collective", "communicator", "memory", "module", "request", "request_step"),
    *("telemetry", "kernel_metric", "ledger", "recorder"),
)


def every_table() -> set[str]:
    """The names of the tables of a complete database."""
    return {name for name, one in definitions().items() if one.kind is Kind.TABLE}


def add_tables(
    database: Path, names: Collection[str], load_id: str, done: Done, *, shown: Path
) -> None:
    """Makes tables of a database and those that they need, and replaces its file.

    Another process that does the same waits, and then finds the tables in the file.

    Args:
        shown: the name of the database in messages.

    Raises:
        DatabaseReplaced: another load has replaced the database.
        TraceqlError: the file cannot be replaced.
        OSError: the same.
        DefinitionInvalid: the definition of a table is wrong.
    """
    # The mode of the file must allow writing; a writable folder alone is not enough.
    is_writable = database.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    if not is_writable or not os.access(database, os.W_OK):
        raise DatabaseError(f"{shown} cannot be written")
    with workspace(database) as folder:
        with closing(opened_database(database, otherwise="load the traces again")) as con:
            if con.execute("SELECT load_id FROM traceql_database").fetchall() != [(load_id,)]:
                raise DatabaseReplaced(
                    f"{shown} was replaced by a load while it was open; open it again"
                )
            if present(con).issuperset(names):
                return
        draft = folder / "new.duckdb"
        target = resolved_target(database)
        before = size_and_mtime(target)
        shutil.copyfile(target, draft)
        with atomic_write(database, draft=draft, may_replace_database=True):
            budget = memory_bytes(None)
            try:
                with open_draft(draft, budget_bytes=budget) as con:
                    make_tables(con, names, at_once=limit_deriving(con, budget), done=done)
            except duckdb.Error as error:
                raise cannot_write(shown, error) from None
            if size_and_mtime(target) != before or target.with_name(f"{target.name}.wal").exists():
                raise DatabaseError(f"{shown} is written by another program")
