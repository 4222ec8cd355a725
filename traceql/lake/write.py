"""Writes the tables of one run as Parquet files."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.compare.profile import profile_of
from traceql.errors import LakeError
from traceql.lake.layout import own_name
from traceql.lake.local_store import file_sha256
from traceql.lake.manifest import About, StoredFile
from traceql.lake.store import Store
from traceql.lake.tables import PROFILE, QUERIES, StoredTable, stored_tables
from traceql.resources import PACKAGE
from traceql.trace import Trace

_ABOUT = (PACKAGE / "lake" / "about.sql").read_text(encoding="utf-8")


def about(database: Path) -> About:
    """What a run says of itself."""
    with Trace(database) as trace:
        ((row),) = trace.sql(_ABOUT).rows()
    lists = {name: tuple(row[name] or ()) for name in ("hosts", "gpus")}
    return About(**{one.name: row[one.name] for one in fields(About)} | lists)


def write_tables(store: Store, database: Path, run: str, drafts: Path) -> dict[str, StoredFile]:
    """Puts the tables of a run that have rows into the lake; their files by name of the table.

    Args:
        database: of this version of traceql.
        drafts: an empty folder of the lake.

    Raises:
        LakeError: a table cannot be written.
    """
    computed = _computed(database)
    try:
        with duckdb.connect() as con:
            # Attached: a database that this process has open is open with other settings.
            con.execute(f"ATTACH '{_quoted(database)}' AS one_run (READ_ONLY)")
            con.execute("USE one_run")
            drafted = {
                one.name: draft
                for one in stored_tables().values()
                if (draft := _draft(con, one, computed, drafts))
            }
    except duckdb.Error as error:
        raise LakeError(f"cannot write {store.place}: {str(error).splitlines()[0]}") from None
    return {name: _put(store, name, run, *draft) for name, draft in drafted.items()}


def _computed(database: Path) -> Mapping[str, pa.Table]:
    """The tables that are not in the database."""
    found = {PROFILE + name: rows for name, rows in profile_of(database).items()}
    with Trace(database) as trace:
        for name, query in QUERIES.items():
            found[name] = trace.run(query).arrow()
    return found


def _draft(
    con: duckdb.DuckDBPyConnection,
    table: StoredTable,
    computed: Mapping[str, pa.Table],
    drafts: Path,
) -> tuple[Path, int] | None:
    """Writes the rows of a table to a file; None if there are none."""
    made = f"({table.sql})" if table.sql else f'"{table.name}"'
    if table.name in computed:
        con.register("computed_rows", computed[table.name])
        made = "computed_rows"
    columns = ", ".join(
        f'CAST("{one.name}" AS {one.type}) AS "{name}"'
        for one, name in zip(table.columns, table.names, strict=True)
    )
    draft = drafts / f"{table.name}.parquet"
    ((rows,),) = con.execute(
        f"COPY (SELECT {columns} FROM {made}) TO '{_quoted(draft)}' (FORMAT parquet, COMPRESSION zstd)"
    ).fetchall()
    return (draft, int(rows)) if rows else None


def _put(store: Store, table: str, run: str, draft: Path, rows: int) -> StoredFile:
    sha256, size = file_sha256(draft), draft.stat().st_size
    name = own_name(table, run, sha256)
    store.put(draft, name)
    return StoredFile(name, rows, size, sha256)




def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
