"""The views that statements see: of one run, like its database, or of several, by column run."""

from collections.abc import Collection, Iterator, Sequence

import duckdb

from traceql.runs.lake.layout import is_shared
from traceql.runs.lake.manifest import Entry
from traceql.runs.lake.store import Store
from traceql.runs.lake.tables import RUN, RUN_TEXT, StoredTable, layout, macros, stored_tables
from traceql.sql.definition import Schema, described
from traceql.sql.execute import make_macros
from traceql.sql.registry import definitions
from traceql.sql.tables_read import lists_tables, words_of
from traceql.util.sql_text import literal

_ROW = "rowid"  # the place of a row in its table, which a view has only where it is asked for


class Views:
    """The views of one connection, made for each statement as it needs them."""

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
