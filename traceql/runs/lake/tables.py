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
from traceql.runs.compare.setup import forbids, keeps_apart
from traceql.runs.compare.sides import RESULTS, columns_of, profile_of, summary_of
from traceql.runs.lake.manifest import About, Entry, StoredFile
from traceql.runs.lake.store import Store, file_sha256, own_name, run_of
from traceql.sql.definition import Definition, Schema, described
from traceql.sql.execute import make_macros, search_path
from traceql.sql.query import shipped_queries
from traceql.sql.registry import definitions
from traceql.sql.tables_read import lists_tables, read_by, words_of
from traceql.util.resources import PACKAGE
from traceql.util.text import Column, comment_head, described_columns, literal, source_text

FOLDER = Path(__file__).parent / "summaries"
SUMMARIES = ("rank_summary", "step_summary", "role_summary")  # in the order of their needs
PROFILE = "profile_"  # before the names of the tables of a profile of `compare.sides`
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
    found = [
        StoredTable(one.name, one.summary, one.columns)
        for one in definitions().values()
        if one.kind.is_kept
    ]
    for name, query in QUERIES.items():
        head = shipped_queries()[query].head
        found.append(StoredTable(name, head.summary, head.columns))
    for name in SUMMARIES:
        source = source_text(FOLDER / f"{name}.sql")
        own = comment_head(name, source, ("column",))
        found.append(StoredTable(name, own.summary, described_columns(name, own), source))
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
    return {name: one for name, one in definitions().items() if one.kind.is_macro}


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
            place = self._create(table, of_runs(self._con, self._store, table, found))
            if lists_tables(sql):
                texts = zip(table.names, (one.text for one in table.columns), strict=True)
                about = described("VIEW", place, table.summary, {RUN: RUN_TEXT, **dict(texts)})
                self._con.execute(about)
        self._create_macros(words)

    def _create(self, table: StoredTable, select: str) -> str:
        """Creates the view of a table in the schema of a database; returns its name."""
        known = definitions().get(table.name)
        place = f'{known.schema if known else Schema.MAIN}."{table.name}"'
        self._con.execute(f"CREATE OR REPLACE VIEW {place} AS {select}")
        return place

    def _create_macros(self, words: Collection[str]) -> None:
        """Creates the macros that a statement calls; some of them read tables, which are there."""
        missing = macros().keys() & set(words) - self._macros
        make_macros(self._con, missing)
        self._macros |= missing


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
    own_names = [column.name for column in table.columns]
    if stored is None:
        return f"SELECT {', '.join(_values(table, own_names, set()))} WHERE FALSE"
    urls = [store.url(stored.file)]
    columns = _values(table, own_names, _present(con, urls, [entry]))
    options = "hive_partitioning = false"
    if _ROW in words:
        columns.append(f"file_row_number AS {_ROW}")
        options += ", file_row_number = true"
    where = "" if run_of(stored.file) else f" WHERE {RUN} = {literal(entry.run)}"
    return f"SELECT {', '.join(columns)} FROM read_parquet({_list(urls)}, {options}){where}"


def of_runs(
    con: duckdb.DuckDBPyConnection, store: Store, table: StoredTable, found: Sequence[Entry]
) -> str:
    """A SELECT of the rows of these runs: those of a file in the order of the file."""
    groups: dict[tuple[bool, bool], list[Entry]] = {}
    for one in found:
        if stored := one.tables.get(table.name):
            key = run_of(stored.file) is None, one.layout != layout()
            groups.setdefault(key, []).append(one)
    parts = [
        _select(con, store, table, part, shared=shared)
        for (shared, _), part in sorted(groups.items(), key=lambda group: group[0])
    ]
    empty = [f"CAST(NULL AS VARCHAR) AS {RUN}", *_values(table, table.names, set())]
    return " UNION ALL ".join(parts) or f"SELECT {', '.join(empty)} WHERE FALSE"


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
    columns = [f"CAST({RUN} AS VARCHAR) AS {RUN}", *_values(table, table.names, present)]
    options = f"union_by_name = {'false' if present is None else 'true'}, hive_partitioning = "
    where = ""
    if shared:
        options += "false"
        where = f" WHERE {RUN} IN ({', '.join(literal(one.run) for one in found)})"
    else:
        options += "true, hive_types_autocast = false"
    return f"SELECT {', '.join(columns)} FROM read_parquet({_list(urls)}, {options}){where}"


def _present(
    con: duckdb.DuckDBPyConnection, urls: Sequence[str], found: Sequence[Entry]
) -> set[str] | None:
    """The columns that files of older versions have; None if they are those of this version."""
    if all(one.layout == layout() for one in found):
        return None
    options = "union_by_name = true, hive_partitioning = false"
    described = con.execute(f"DESCRIBE FROM read_parquet({_list(urls)}, {options})").fetchall()
    return {row[0] for row in described}


def _values(table: StoredTable, aliases: Sequence[str], present: set[str] | None) -> list[str]:
    """The columns of a table in the lake under other names; NULL for those that are not present."""
    found = []
    for one, name, alias in zip(table.columns, table.names, aliases, strict=True):
        value = f'CAST("{name}" AS {one.type})'
        if present is not None:
            value = f"TRY_{value}" if name in present else f"CAST(NULL AS {one.type})"
        found.append(f'{value} AS "{alias}"')
    return found


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
        with complete_database(database) as complete, duckdb.connect() as con:
            con.execute(f"ATTACH {literal(complete)} AS one_run (READ_ONLY)")
            con.execute(f"SET search_path = {literal(search_path('one_run'))}")
            drafted = {
                one.name: draft
                for one in stored_tables().values()
                if (draft := _draft(con, one, computed, drafts))
            }
    except duckdb.Error as error:
        raise LakeError(f"cannot write {store.place}: {str(error).splitlines()[0]}") from None
    files = {}
    for name, (file, rows) in drafted.items():
        sha256, size = file_sha256(file), file.stat().st_size
        files[name] = StoredFile(own_name(name, run, sha256), rows, size, sha256)
        store.put(file, files[name].file)
    return about, files


def _about(trace: Database, facts: pa.Table) -> About:
    (row,) = trace.select(_ABOUT).rows()
    lists = {name: tuple(row[name] or ()) for name in ("hosts", "gpus")}
    # Equal for runs whose times can be compared.
    known = sorted(
        (one["name"], one["value"])
        for one in facts.to_pylist()
        if forbids(one["name"]) or keeps_apart(one["name"])
    )
    setup = hashlib.sha256(repr(known).encode()).hexdigest()[:8]
    return About(**{**row, **lists}, setup=setup)


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
