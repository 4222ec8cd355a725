"""Makes tables: the source tables and macros of a new database, and others as they are needed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from queue import SimpleQueue
from traceback import extract_tb

import duckdb
import pyarrow as pa

from traceql.errors import DatabaseError, DefinitionInvalid, TraceqlError, reason
from traceql.sql.definition import Definition, Kind, Schema, comments, table_of, tables_of
from traceql.sql.registry import definitions
from traceql.sql.second_connection import connection_to_memory, see_memory
from traceql.util.arrow_duckdb import create_table, spilled
from traceql.util.text import identifier, literal

_SCRATCH = "scratch"  # a database in memory: all connections see it, and it writes no log
_Making = Callable[[duckdb.DuckDBPyConnection, Definition, str], None]
_PRESENT = """
    SELECT table_name FROM duckdb_tables()
    WHERE database_name = $database AND schema_name IN ('main', 'internal', 'reference')
"""


def search_path(database: str, *, first: Schema = Schema.MAIN) -> str:
    """The search path by which a connection finds the tables of all schemas of a database.

    Args:
        first: the schema in which a table is created that is named without one.
    """
    schemas = [first, *(one for one in Schema if one is not first)]
    return ",".join(f"{identifier(database)}.{schema}" for schema in schemas)


def create_sources(con: duckdb.DuckDBPyConnection) -> None:
    """Creates the schemas, and the source tables unless they exist, and describes them.

    From then on the connection finds the tables of all schemas by their names alone.
    """
    database = _database(con)
    con.begin()  # a commit for each statement would take longer
    for schema in Schema:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    sources = [one for one in definitions().values() if one.kind is Kind.SOURCE]
    for schema in Schema:
        con.execute(f"SET search_path = {literal(search_path(database, first=schema))}")
        for one in (source for source in sources if source.schema is schema):
            with _naming_errors(f"{one.kind} {one.name}", one.path):
                _run_creates(con, one)
                _describe(con, one, one.name)
    con.commit()
    con.execute(f"SET search_path = {literal(search_path(database))}")


def make_macros(con: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Makes macros, and those that they call, in memory, where the connection then finds them.

    Args:
        con: has attached its databases; the tables that the macros read exist there.
    """
    memory = connection_to_memory(con)
    macros = {name: one for name, one in definitions().items() if one.kind.is_macro}
    for one in _in_order(_with_needs(names, macros)):
        make(memory, one, one.name)
    see_memory(con)


def drop_derived(con: duckdb.DuckDBPyConnection) -> None:
    """Drops all tables that are made from others, before the sources of a database change."""
    for name in present(con):
        one = definitions().get(name)
        if one and one.kind is Kind.TABLE:
            con.execute(f"DROP TABLE {one.schema}.{one.name}")


def present(con: duckdb.DuckDBPyConnection) -> set[str]:
    """The names of the tables that the database of a connection has."""
    return {name for (name,) in con.execute(_PRESENT, {"database": _database(con)}).fetchall()}


def make_tables(
    con: duckdb.DuckDBPyConnection,
    names: Iterable[str],
    *,
    at_once: int = 2,
    done: Callable[[int, int], None] = lambda _count, _total: None,
) -> None:
    """Makes and describes tables, and all that they need, unless they exist.

    Args:
        con: sees the schemas of one database, as after `create_sources`.
        names: of tables; other names have no effect.
        at_once: how many tables are made at the same time, each by a query that uses all threads
            of the connection. Their memory adds up.
        done: called with how many tables were made, and of how many.

    Raises:
        DefinitionInvalid: the SQL or the Python of a table is wrong; the message names the file.
        DatabaseError: disk or memory is full.
    """
    made = present(con)
    known = {name: one for name, one in definitions().items() if name not in made}
    empty = _Empty(con, known)
    missing = _with_needs(names, known, but=empty.has)
    if not any(one.kind.is_kept for one in missing.values()):
        return
    con.execute(f"ATTACH ':memory:' AS {_SCRATCH}")
    try:
        _make_all(con, missing, empty, at_once, done)
    finally:
        con.execute(f"DETACH {_SCRATCH}")


def _database(con: duckdb.DuckDBPyConnection) -> str:
    return str(con.execute("SELECT current_database()").fetchall()[0][0])


class _Empty:
    """Which tables have no rows, as far as that is known before they are made.

    Most recordings have no rows of many tables, and planning their statements, and making what they
    need, takes longer than running them on no rows.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, missing: Mapping[str, Definition]) -> None:
        self._missing = missing
        self._known: dict[str, bool] = {}
        self._exists = cache(partial(_exists, con))

    def has(self, one: Definition) -> bool:
        if one.name not in self._known:
            self._known[one.name] = bool(one.empty_unless) and not any(
                self._may_have_rows(one, line) for line in one.empty_unless
            )
        return self._known[one.name]

    def _may_have_rows(self, one: Definition, line: str) -> bool:
        if needed := self._missing.get(table_of(line)):
            return not self.has(needed)
        if any(name in self._missing for name in tables_of(one, line)):
            return True
        with _naming_errors(f"{one.kind} {one.name}", one.path):
            return self._exists(line)


def _exists(con: duckdb.DuckDBPyConnection, rows: str) -> bool:
    return bool(con.execute(f"SELECT 1 FROM {rows} LIMIT 1").fetchall())


def _with_needs(
    names: Iterable[str],
    among: Mapping[str, Definition],
    *,
    but: Callable[[Definition], bool] = lambda _one: False,
) -> dict[str, Definition]:
    """The definitions with these names and all that they need, as far as they are among those.

    Args:
        but: whether what a definition needs is left out.
    """
    found: dict[str, Definition] = {}
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if name in among and name not in found:
            found[name] = among[name]
            waiting += [] if but(among[name]) else among[name].needs
    return found


def _in_order(known: Mapping[str, Definition]) -> list[Definition]:
    """These definitions, each after those of them that it needs."""
    order = TopologicalSorter({name: known.keys() & set(one.needs) for name, one in known.items()})
    return [known[name] for name in order.static_order()]


def _make_all(
    con: duckdb.DuckDBPyConnection,
    missing: Mapping[str, Definition],
    empty: _Empty,
    at_once: int,
    done: Callable[[int, int], None],
) -> None:
    needs = {name: missing.keys() & set(one.needs) for name, one in missing.items()}
    order = TopologicalSorter(needs)
    try:
        order.prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise DefinitionInvalid(f"tables need each other in a circle: {circle}") from None
    heights = _heights(needs)
    readers = Counter(needed for one in missing.values() for needed in one.needs)
    running: dict[Future[None], Definition] = {}
    database, made = _database(con), 0
    free = SimpleQueue[duckdb.DuckDBPyConnection]()
    for _ in range(at_once):
        free.put(_scratch_connection(con, database))
    pool = ThreadPoolExecutor(at_once)
    with ExitStack() as stack:
        stack.callback(pool.shutdown, cancel_futures=True)  # after an error
        while order.is_active():
            for name in sorted(order.get_ready(), key=lambda n: (-heights[n], n)):
                one = missing[name]
                making = _create_empty if empty.has(one) else make
                future = pool.submit(_make_described, free, making, one, database)
                running[future] = one
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                one = running.pop(future)
                future.result()
                order.done(one.name)
                readers.subtract(one.needs)
                _drop_unread(con, [missing[n] for n in needs[one.name]], readers)
                made += 1
                done(made, len(missing))


def _make_described(
    free: SimpleQueue[duckdb.DuckDBPyConnection], making: _Making, one: Definition, database: str
) -> None:
    con = free.get()
    try:
        if not one.kind.is_kept:
            making(con, one, one.name)
            return
        place = f"{identifier(database)}.{one.schema}.{one.name}"
        con.begin()  # of all comments too: a transaction for each would take longer
        try:
            making(con, one, place)
            with _naming_errors(f"{one.kind} {one.name}", one.path):
                _describe(con, one, place)
        except TraceqlError:
            con.rollback()  # the connection makes other tables
            raise
        con.commit()
    finally:
        free.put(con)


def _scratch_connection(con: duckdb.DuckDBPyConnection, database: str) -> duckdb.DuckDBPyConnection:
    """Another connection, which also sees scratch tables, and creates what it creates there."""
    cursor = con.cursor()
    path = f"{_SCRATCH}.main,{search_path(database)}"
    cursor.execute(f"SET search_path = {literal(path)}")
    return cursor


def make(con: duckdb.DuckDBPyConnection, one: Definition, place: str) -> None:
    """Makes one table or macro.

    Args:
        place: the name of the table, with database and schema unless it belongs into the first one
            of the search path, as macros do.

    Raises:
        DefinitionInvalid: its SQL or its Python is wrong; the message names the file.
        DatabaseError: disk or memory is full.
    """
    with _naming_errors(f"{one.kind} {one.name}", one.path):
        if one.kind.is_macro:
            _run_creates(con, one)
        elif one.empty_unless and not any(_exists(con, rows) for rows in one.empty_unless):
            _create_empty(con, one, place)
        elif one.is_python:
            with spilled(con, _parts(con, one)) as found:
                create_table(con, place, found)
            pa.default_memory_pool().release_unused()
        else:
            _create_as(con, one, place)


def _create_empty(con: duckdb.DuckDBPyConnection, one: Definition, place: str) -> None:
    columns = ", ".join(f'"{column.name}" {column.type}' for column in one.columns)
    con.execute(f"CREATE OR REPLACE TABLE {place} ({columns})")


@contextmanager
def _naming_errors(what: str, path: Path) -> Iterator[None]:
    """Turns an error of the block into one line that names what is made, and its file."""
    failure = f"cannot make {what} ({path})"
    try:
        yield
    except TraceqlError:
        raise
    except duckdb.OperationalError as error:
        raise DatabaseError(f"{failure}: {_first_line(error)}") from None
    except duckdb.Error as error:
        raise DefinitionInvalid(f"{failure}: {_first_line(error)}") from None
    except Exception as error:
        lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == str(path)]
        place = f" in line {lines[-1]}" if lines else ""
        raise DefinitionInvalid(f"{failure}: {reason(error)}{place}") from error


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]


def _create_as(con: duckdb.DuckDBPyConnection, one: Definition, place: str) -> None:
    """Creates a table from a SELECT."""
    select = one.source.rstrip().removesuffix(";")
    # In brackets, a second statement is an error.
    _run(con, f"CREATE OR REPLACE TABLE {place} AS (\n{select}\n)")


def _run_creates(con: duckdb.DuckDBPyConnection, one: Definition) -> None:
    """Runs a file that holds its own CREATE."""
    for statement in _statements(one.source):
        if statement.type != duckdb.StatementType.CREATE:
            found = statement.type.name
            raise DefinitionInvalid(f"{one.path}: kind {one.kind} is a CREATE, not a {found}")
        con.execute(statement)


def _describe(con: duckdb.DuckDBPyConnection, one: Definition, place: str) -> None:
    """Describes a table and its columns."""
    if one.schema is not Schema.MAIN:
        _run(con, comments(one, place))
        return
    con.execute("PRAGMA disable_optimizer")  # a third of the time of such a statement
    _run(con, comments(one, place))
    con.execute("PRAGMA enable_optimizer")


def _run(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    for statement in _statements(sql):
        con.execute(statement)


@cache
def _statements(sql: str) -> list[duckdb.Statement]:
    """The statements of a text, parsed once for all databases that this process makes."""
    return duckdb.extract_statements(sql)


def _parts(con: duckdb.DuckDBPyConnection, one: Definition) -> Iterator[pa.Table]:
    """The rows that a Python file returns, in one table or in several."""
    found = one.rows(con)
    for part in found if isinstance(found, Iterator) else [found]:
        if not isinstance(part, pa.Table):
            returned = type(part).__name__
            raise DefinitionInvalid(
                f"{one.path}: rows(con) returned {returned}, not a pyarrow.Table"
            )
        yield part


def _heights(needs: Mapping[str, Set[str]]) -> Mapping[str, int]:
    """The length of the longest chain of tables that wait for each table.

    Tables with long chains are made first, so that the last chain does not run alone.
    """
    heights = dict.fromkeys(needs, 0)
    for name in reversed(list(TopologicalSorter(needs).static_order())):
        for needed in needs[name]:
            heights[needed] = max(heights[needed], heights[name] + 1)
    return heights


def _drop_unread(
    con: duckdb.DuckDBPyConnection, read: Iterable[Definition], readers: Counter[str]
) -> None:
    """Drops the scratch tables that no remaining table needs."""
    for one in read:
        if one.kind is Kind.SCRATCH and not readers[one.name]:
            con.execute(f"DROP TABLE {_SCRATCH}.{one.name}")
