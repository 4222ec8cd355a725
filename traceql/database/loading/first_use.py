"""Makes tables of a database when something first needs them, and keeps them in its file.

A load makes the tables that most questions need. The others are made by the first query, finding or
command that reads them. The file is replaced by a copy that has them: who has it open keeps the old
one, and a killed process leaves it as it was.
"""

import os
import shutil
import stat
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import duckdb

from traceql.database.loading.draft import cannot_write, limit_deriving, open_draft
from traceql.database.loading.workspace import workspace
from traceql.database.notices import Done
from traceql.database.opening import opened_database
from traceql.errors import DatabaseError, DatabaseReplaced
from traceql.sql.definition import Kind
from traceql.sql.execute import make_tables, present
from traceql.sql.registry import definitions
from traceql.util.files import size_and_time, target_of, whole_file
from traceql.util.memory import memory_bytes

# The tables that every load makes, and recorder, which its summary reads.
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
    """Makes these tables of a database, and what they need, and replaces its file.

    Another process that does the same waits, and finds the tables there.

    Args:
        load_id: of the load whose tables are meant (traceql_database.load_id).
        done: called with how many tables were made, and of how many.
        shown: the name of the database in messages.

    Raises:
        DatabaseReplaced: the database was loaded anew.
        TraceqlError: the file cannot be replaced.
        OSError: the same.
        DefinitionInvalid: the definition of a table is wrong.
    """
    if not _may_be_replaced(database):
        raise DatabaseError(f"{shown} cannot be written")
    with workspace(database) as folder:
        if _made(database, load_id, shown=shown).issuperset(names):
            return
        draft = folder / "new.duckdb"
        target = target_of(database)
        before = size_and_time(target)
        shutil.copyfile(target, draft)
        with whole_file(database, draft=draft, may_replace_database=True):
            _make(draft, names, done, shown=shown)
            if size_and_time(target) != before or target.with_name(f"{target.name}.wal").exists():
                raise DatabaseError(f"{shown} is written by another program")


def _made(database: Path, load_id: str, *, shown: Path) -> set[str]:
    """The tables that a database has now, after others may have made some."""
    with closing(opened_database(database, otherwise="load the traces again")) as con:
        if con.execute("SELECT load_id FROM traceql_database").fetchall() != [(load_id,)]:
            raise DatabaseReplaced(
                f"{shown} was replaced by a load while it was open; open it again"
            )
        return present(con)


def _make(draft: Path, names: Collection[str], done: Done, *, shown: Path) -> None:
    """Makes tables in a draft.

    Args:
        shown: the name of the database in messages.
    """
    budget = memory_bytes(None)
    try:
        with open_draft(draft, budget_bytes=budget) as con:
            make_tables(con, names, at_once=limit_deriving(con, budget), done=done)
    except duckdb.Error as error:
        raise cannot_write(shown, error) from None


def _may_be_replaced(database: Path) -> bool:
    """Whether its owner lets the file change; whoever may write the folder could replace it."""
    mode = database.stat().st_mode
    return bool(mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)) and os.access(
        database, os.W_OK
    )
