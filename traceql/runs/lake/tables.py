"""The tables of a lake: the files of one run, and views of one run or several for statements."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.database.database import Database
from traceql.database.tables import complete_database
from traceql.errors import LakeError
from traceql.runs.compare.profile import RESULTS, columns_of, profile_of, summary_of
from traceql.runs.compare.setup import forbids, keeps_apart
from traceql.runs.lake.manifest import About, Entry, StoredFile
from traceql.runs.lake.store import Store, file_sha256, is_shared, own_name
from traceql.sql.definition import Definition, Schema, described
from traceql.sql.execute import make_macros, search_path
from traceql.sql.query import shipped_queries
from traceql.sql.registry import definitions
from traceql.sql.tables_read import lists_tables, read_by, words_of
from traceql.util.resources import PACKAGE
from traceql.util.text import Column, comment_head, described_columns, literal, source_text

FOLDER = Path(__file__).parent / "summaries"
SUMMARIES = ("rank_summary", "step_summary", "role_summary")  # in the order of their needs
PROFILE = "profile_"  # before the names of the tables of `traceql.runs.compare.profile`
RUN = "run"  # the column of the name of the run
RUN_TEXT = "Name of the run in the lake (lake_run.run)."
# A column of that name in a table itself: the path of a run directory.
OWN_RUN = "run_directory"
# Tables that are the rows of a query.
QUERIES = {"utilization": "model.mfu"}


@dataclass(frozen=True)
class StoredTable:
    """A table of which the lake has the rows of each run.

    Attributes:
        summary: what one row is.
        columns: as in the database of a run.
        sql: how it is made from such a database; None if it is there under its name.
    """

    name: str
    summary: str
    columns: tuple[Column, ...]
    sql: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns in the lake, where run is the name of the run."""
        return [OWN_RUN if one.name == RUN else one.name for one in self.columns]


@cache
def stored_tables() -> Mapping[str, StoredTable]:
    """All tables of a lake, by name."""
    found = [
        StoredTable(one.name, one.summary, one.columns)
        for one in definitions().values()
        if one.kind.is_kept
    ]
    for name, query in QUERIES.items():
        head = shipped_queries()[query].head
        found.append(StoredTable(name, head.summary, head.columns))
    found += [_summary(FOLDER / f"{name}.sql") for name in SUMMARIES]
    found += [StoredTable(PROFILE + name, summary_of(name), columns_of(name)) for name in RESULTS]
    return {one.name: one for one in found}


@cache
def layout() -> str:
    """A digest of the names and types of the columns of all tables."""
    columns = [
        (one.name, column.name, column.type)
        for one in stored_tables().values()
        for column in one.columns
    ]
    return hashlib.sha256(repr(sorted(columns)).encode()).hexdigest()[:16]


@cache
def macros() -> Mapping[str, Definition]:
    """The macros that canned queries use, by name."""
    return {name: one for name, one in definitions().items() if one.kind.is_macro}


def _summary(file: Path) -> StoredTable:
    source = source_text(file)
    head = comment_head(file.name, source, ("column",))
    return StoredTable(file.stem, head.summary, described_columns(file.name, head), source)


_ROW = "rowid"  # the position of a row, which a view has only for statements that use it


class Views:
    """The views of one connection, made for the tables of each statement."""

    def __init__(self, con: duckdb.DuckDBPyConnection, store: Store) -> None:
        self._con = con
        self._store = store
        self._macros: set[str] = set()
        for schema in Schema:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")

    def show_run(self, entry: Entry, sql: str) -> None:
        """Creates the tables that a statement names, with the rows of one run, and macros."""
        words = _with_words_of_macros(sql)
        for table in _named(words, sql):
            self._create(table, _of_run(self._con, self._store, table, entry, words))
        self._create_macros(words)

    def show_runs(self, found: Sequence[Entry], sql: str) -> None:
        """Creates the tables that a statement names, with the rows of these runs, and macros."""
        words = _with_words_of_macros(sql)
        for table in _named(words, sql):
            self._create(table, of_runs(self._con, self._store, table, found))
            if lists_tables(sql):
                self._describe(table)
        self._create_macros(words)

    def _create(self, table: StoredTable, select: str) -> None:
        self._con.execute(f"CREATE OR REPLACE VIEW {_place(table)} AS {select}")

    def _describe(self, table: StoredTable) -> None:
        texts = {name: one.text for one, name in zip(table.columns, table.names, strict=True)}
        texts = {RUN: RUN_TEXT, **texts}
        self._con.execute(described("VIEW", _place(table), table.summary, texts))

    def _create_macros(self, words: Collection[str]) -> None:
        """Creates the macros that a statement calls; some of them read tables, which are there."""
        missing = macros().keys() & set(words) - self._macros
        make_macros(self._con, missing)
        self._macros |= missing


def _place(table: StoredTable) -> str:
    """The name of the view of a table, in the schema that the table has in a database."""
    known = definitions().get(table.name)
    return f'{known.schema if known else Schema.MAIN}."{table.name}"'


def _with_words_of_macros(sql: str) -> set[str]:
    """The words of a statement and of the macros that it calls, by which tables are found."""
    words = words_of(sql)
    known = macros()
    called = [name for name in known if name in words]
    seen = set(called)
    while called:
        one = known[called.pop()]
        words |= words_of(one.source) | {one.name}
        new = known.keys() & set(one.needs) - seen
        seen |= new
        called += new
    return words


def _named(words: Collection[str], sql: str) -> Iterator[StoredTable]:
    has_all = lists_tables(sql)
    return (one for one in stored_tables().values() if has_all or one.name in words)


def _of_run(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    table: StoredTable,
    entry: Entry,
    words: Collection[str],
) -> str:
    stored = entry.tables.get(table.name)
    if stored is None:
        return _empty(table, [column.name for column in table.columns])
    urls, shared = [store.url(stored.file)], is_shared(stored.file)
    present = _present(con, urls, [entry])
    columns = [
        f'{_value(name, one.type, present)} AS "{one.name}"'
        for one, name in zip(table.columns, table.names, strict=True)
    ]
    options = "hive_partitioning = false"
    if _ROW in words:
        columns.append(f"file_row_number AS {_ROW}")
        options += ", file_row_number = true"
    where = f" WHERE {RUN} = {literal(entry.run)}" if shared else ""
    return f"SELECT {', '.join(columns)} FROM read_parquet({_list(urls)}, {options}){where}"


def of_runs(
    con: duckdb.DuckDBPyConnection, store: Store, table: StoredTable, found: Sequence[Entry]
) -> str:
    """A SELECT of the rows of these runs: those of a file in the order of the file."""
    having = [one for one in found if table.name in one.tables]
    parts = [
        _select(con, store, table, part, shared=shared)
        for shared in (False, True)
        for current in (True, False)
        if (
            part := [
                one
                for one in having
                if is_shared(one.tables[table.name].file) is shared
                and (one.layout == layout()) is current
            ]
        )
    ]
    return " UNION ALL ".join(parts) or _empty(table, table.names, with_run=True)


def _select(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    table: StoredTable,
    found: Sequence[Entry],
    *,
    shared: bool,
) -> str:
    urls = list(dict.fromkeys(store.url(one.tables[table.name].file) for one in found))
    present = _present(con, urls, found)
    columns = [f"CAST({RUN} AS VARCHAR) AS {RUN}"]
    columns += [
        f'{_value(name, one.type, present)} AS "{name}"'
        for one, name in zip(table.columns, table.names, strict=True)
    ]
    options = "union_by_name = " + ("false" if _is_current(found) else "true")
    options += ", hive_partitioning = " + (
        "false" if shared else "true, hive_types_autocast = false"
    )
    where = ""
    if shared:
        runs = ", ".join(literal(one.run) for one in found)
        where = f" WHERE {RUN} IN ({runs})"
    return f"SELECT {', '.join(columns)} FROM read_parquet({_list(urls)}, {options}){where}"


def _is_current(found: Sequence[Entry]) -> bool:
    return all(one.layout == layout() for one in found)


def _present(
    con: duckdb.DuckDBPyConnection, urls: Sequence[str], found: Sequence[Entry]
) -> set[str] | None:
    """The columns that files of older versions have; None if they are those of this version."""
    if _is_current(found):
        return None
    options = "union_by_name = true, hive_partitioning = false"
    described = con.execute(f"DESCRIBE FROM read_parquet({_list(urls)}, {options})").fetchall()
    return {row[0] for row in described}


def _value(column: str, kind: str, present: Collection[str] | None) -> str:
    if present is None:
        return f'CAST("{column}" AS {kind})'
    return f'TRY_CAST("{column}" AS {kind})' if column in present else f"CAST(NULL AS {kind})"


def _empty(table: StoredTable, names: Sequence[str], *, with_run: bool = False) -> str:
    columns = [f"CAST(NULL AS VARCHAR) AS {RUN}"] if with_run else []
    columns += [
        f'CAST(NULL AS {one.type}) AS "{name}"'
        for one, name in zip(table.columns, names, strict=True)
    ]
    return f"SELECT {', '.join(columns)} WHERE FALSE"


def _list(urls: Sequence[str]) -> str:
    return "[" + ", ".join(map(literal, urls)) + "]"


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
