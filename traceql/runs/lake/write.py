"""Writes the tables of one run as Parquet files."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.database.database import Database
from traceql.database.tables import complete_database
from traceql.errors import LakeError
from traceql.runs.compare.profile import profile_of
from traceql.runs.compare.setup import forbids, keeps_apart
from traceql.runs.lake.manifest import About, StoredFile
from traceql.runs.lake.store import Store, file_sha256, own_name
from traceql.runs.lake.tables import PROFILE, QUERIES, StoredTable, stored_tables
from traceql.sql.execute import make_macros, search_path
from traceql.sql.tables_read import read_by
from traceql.util.resources import PACKAGE
from traceql.util.text import literal

_ABOUT = (PACKAGE / "runs" / "lake" / "about.sql").read_text(encoding="utf-8")


def write_run(
    store: Store, database: Path, run: str, drafts: Path
) -> tuple[About, dict[str, StoredFile]]:
    """Puts the tables of a run that have rows into the lake.

    Args:
        database: of this version of traceql.
        drafts: an empty folder of the lake.

    Returns:
        The metadata of the run, and its files by table.

    Raises:
        LakeError: a table cannot be written.
    """
    profile = profile_of(database)
    with Database(database) as trace:
        about = _about(trace, profile["fact"])
        computed = {name: trace.query(query).arrow() for name, query in QUERIES.items()}
    computed |= {PROFILE + name: rows for name, rows in profile.items()}
    try:
        with complete_database(database) as file, duckdb.connect() as con:
            con.execute(f"ATTACH {literal(file)} AS one_run (READ_ONLY)")
            con.execute(f"SET search_path = {literal(search_path('one_run'))}")
            drafted = {
                one.name: draft
                for one in stored_tables().values()
                if (draft := _draft(con, one, computed, drafts))
            }
    except duckdb.Error as error:
        raise LakeError(f"cannot write {store.place}: {str(error).splitlines()[0]}") from None
    return about, {name: _put(store, name, run, *draft) for name, draft in drafted.items()}


def _about(trace: Database, facts: pa.Table) -> About:
    (row,) = trace.select(_ABOUT).rows()
    lists = {name: tuple(row[name] or ()) for name in ("hosts", "gpus")}
    return About(**{**row, **lists}, setup=_setup(facts))


def _setup(facts: pa.Table) -> str:
    """A digest that is equal for runs whose times can be compared."""
    known = sorted(
        (one["name"], one["value"])
        for one in facts.to_pylist()
        if forbids(one["name"]) or keeps_apart(one["name"])
    )
    return hashlib.sha256(repr(known).encode()).hexdigest()[:8]


def _draft(
    con: duckdb.DuckDBPyConnection,
    table: StoredTable,
    computed: Mapping[str, pa.Table],
    drafts: Path,
) -> tuple[Path, int] | None:
    """Writes the rows of a table to a file; None if there are none."""
    if table.sql:
        make_macros(con, read_by(con, table.sql).macros)
        con.execute(f"CREATE TEMP VIEW {table.name} AS {table.sql}")
    elif table.name in computed:
        con.register(table.name, computed[table.name])
    columns = ", ".join(
        f'CAST("{one.name}" AS {one.type}) AS "{name}"'
        for one, name in zip(table.columns, table.names, strict=True)
    )
    draft = drafts / f"{table.name}.parquet"
    select = f'SELECT {columns} FROM "{table.name}"'
    ((rows,),) = con.execute(
        f"COPY ({select}) TO {literal(draft)} (FORMAT parquet, COMPRESSION zstd)"
    ).fetchall()
    return (draft, int(rows)) if rows else None


def _put(store: Store, table: str, run: str, draft: Path, rows: int) -> StoredFile:
    sha256, size = file_sha256(draft), draft.stat().st_size
    name = own_name(table, run, sha256)
    store.put(draft, name)
    return StoredFile(name, rows, size, sha256)
