"""Makes all derived tables, each after the tables that it needs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from queue import SimpleQueue
from traceback import extract_tb

import duckdb
import pyarrow as pa

from traceql.arrow_duckdb import create_table
from traceql.derive.definition import Definition, Kind
from traceql.derive.describe import comments
from traceql.derive.registry import definitions
from traceql.errors import DatabaseError, DefinitionInvalid, TraceqlError, reason
from traceql.findings.view import FINDING_VIEW, finding_files, selects_by_file
from traceql.second_connection import second_connection
from traceql.spooled import spooled

_SCRATCH = "scratch"  # a database in memory: all connections see it, and it writes no log


def create_sources(con: duckdb.DuckDBPyConnection) -> None:
    """Creates the source tables, which loading fills, unless they exist, and describes them."""
    con.begin()  # a commit for each statement would take longer
    for one in definitions().values():
        if one.kind is Kind.SOURCE:
            with _told(f"{one.kind} {one.name}", one.path):
                _run_creates(con, one)
                _run(con, comments(one))
    con.commit()


def derive(
    con: duckdb.DuckDBPyConnection, *, at_once: int = 2, only: Set[str] | None = None
) -> None:
    """Makes and describes all other tables, views and macros, from the source tables.

    Args:
        at_once: how many tables are made at the same time, each by a query that uses all
            processors. Their memory adds up.
        only: the names of what is made, with the scratch tables that it needs; everything else is
            there already.
    """
    derived = {n: one for n, one in definitions().items() if one.kind is not Kind.SOURCE}
    if only is not None:
        derived = _with_scratch(derived, only)
    database = con.execute("SELECT current_database()").fetchall()[0][0]
    con.execute(f"ATTACH ':memory:' AS {_SCRATCH}")
    try:
        _make_all(con, database, derived, at_once)
    finally:
        con.execute(f"DETACH {_SCRATCH}")


def _with_scratch(derived: Mapping[str, Definition], only: Set[str]) -> dict[str, Definition]:
    """These definitions, and all scratch ones that they need, directly or through others."""
    found: dict[str, Definition] = {}
    waiting = [*only]
    while waiting:
        one = derived[waiting.pop()]
        found[one.name] = one
        needed = (derived[name] for name in one.needs if name in derived and name not in found)
        waiting += [other.name for other in needed if other.kind.is_scratch]
    return found


def _make_all(
    con: duckdb.DuckDBPyConnection,
    database: str,
    derived: Mapping[str, Definition],
    at_once: int,
) -> None:
    needs = {name: derived.keys() & set(one.needs) for name, one in derived.items()}
    order = TopologicalSorter(needs)
    try:
        order.prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise DefinitionInvalid(f"tables need each other in a circle: {circle}") from None
    heights = _heights(needs)
    readers = Counter(needed for one in derived.values() for needed in one.needs)
    running: dict[Future[None], Definition] = {}
    connections = {
        is_scratch: _connections(con, database, at_once, is_scratch=is_scratch)
        for is_scratch in (False, True)
    }
    with ThreadPoolExecutor(at_once) as pool:
        while order.is_active():
            for name in sorted(order.get_ready(), key=lambda n: (-heights[n], n)):
                one = derived[name]
                free = connections[one.kind.is_scratch]
                running[pool.submit(_make_described, free, one)] = one
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                one = running.pop(future)
                future.result()
                order.done(one.name)
                readers.subtract(one.needs)
                _drop_unread(con, [derived[n] for n in needs[one.name]], readers)


def _make_described(free: SimpleQueue[duckdb.DuckDBPyConnection], one: Definition) -> None:
    con = free.get()
    try:
        if one.kind.is_scratch:
            make(con, one)
        else:
            _make_at_once(con, one)
    finally:
        free.put(con)


def _make_at_once(con: duckdb.DuckDBPyConnection, one: Definition) -> None:
    """Makes and describes a table in one transaction: one for each comment would take longer."""
    con.begin()
    try:
        make(con, one)
        with _told(f"{one.kind} {one.name}", one.path):
            _run(con, comments(one))
    except TraceqlError:
        con.rollback()  # the connection makes other tables
        raise
    con.commit()


def make(con: duckdb.DuckDBPyConnection, one: Definition) -> None:
    """Makes one table, view or macro.

    Raises:
        DefinitionInvalid: its SQL or its Python is wrong; the message names the file.
        DatabaseError: disk or memory is full.
    """
    with _told(f"{one.kind} {one.name}", one.path):
        if one.kind.is_macro:
            _run_creates(con, one)
        elif not _may_have_rows(con, one):
            _create_empty(con, one)
        elif one.is_python:
            with spooled(con, _parts(con, one)) as found:
                create_table(con, one.name, found)
            pa.default_memory_pool().release_unused()
        else:
            _create_as(con, one)


def _may_have_rows(con: duckdb.DuckDBPyConnection, one: Definition) -> bool:
    """Whether there is a row of what the table has no rows without.

    Most recordings have no rows of most such tables, and planning a statement takes longer than
    running it on no rows.
    """
    if not one.empty_unless:
        return True
    return bool(con.execute(f"SELECT EXISTS (FROM {one.empty_unless})").fetchall()[0][0])


def _create_empty(con: duckdb.DuckDBPyConnection, one: Definition) -> None:
    columns = ", ".join(f'"{column.name}" {column.type}' for column in one.columns)
    con.execute(f"CREATE OR REPLACE TABLE {one.name} ({columns})")


@contextmanager
def _told(what: str, path: Path) -> Iterator[None]:
    """Turns an error of the block into one line that names what is made, and its file."""
    told = f"cannot make {what} ({path})"
    try:
        yield
    except TraceqlError:
        raise
    except duckdb.OperationalError as error:
        raise DatabaseError(f"{told}: {_first_line(error)}") from None
    except duckdb.Error as error:
        raise DefinitionInvalid(f"{told}: {_first_line(error)}") from None
    except Exception as error:
        raise DefinitionInvalid(f"{told}: {reason(error)}{_place(path, error)}") from error


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]


def _place(path: Path, error: Exception) -> str:
    """The line of a Python file at which an error arose."""
    lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == str(path)]
    return f" in line {lines[-1]}" if lines else ""


def _create_as(con: duckdb.DuckDBPyConnection, one: Definition) -> None:
    """Creates a table or view from a SELECT."""
    what = "VIEW" if one.kind is Kind.VIEW else "TABLE"
    select = one.source.rstrip().removesuffix(";")
    # A failure ends the transaction of con.
    beside = second_connection(con) if one.path == FINDING_VIEW else None
    try:
        # In brackets, a second statement is an error.
        _run(con, f"CREATE OR REPLACE {what} {one.name} AS (\n{select}\n)")
    except duckdb.Error:
        if beside:
            _tell_wrong_finding(beside)
        raise


def _tell_wrong_finding(con: duckdb.DuckDBPyConnection) -> None:
    """Raises an error that names the first file of a finding that is wrong, if there is one."""
    for file, select in selects_by_file(finding_files()):
        with _told(f"finding {file.path.stem}", file.path):
            con.execute(f"EXPLAIN {select}")


def _run_creates(con: duckdb.DuckDBPyConnection, one: Definition) -> None:
    """Runs a file that holds its own CREATE."""
    for statement in _statements(one.source):
        if statement.type != duckdb.StatementType.CREATE:
            found = statement.type.name
            raise DefinitionInvalid(f"{one.path}: kind {one.kind} is a CREATE, not a {found}")
        con.execute(statement)


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


def _connections(
    con: duckdb.DuckDBPyConnection, database: str, at_once: int, *, is_scratch: bool
) -> SimpleQueue[duckdb.DuckDBPyConnection]:
    """One connection for each table made at once, which sees the database and the scratch tables.

    It creates tables in the scratch database or else in the database.
    """
    places = [f'"{database}".main', f"{_SCRATCH}.main"]
    in_order = reversed(places) if is_scratch else places
    search_path = ",".join(in_order)
    free = SimpleQueue[duckdb.DuckDBPyConnection]()
    for _ in range(at_once):
        cursor = con.cursor()
        cursor.execute(f"SET search_path = '{search_path}'")
        free.put(cursor)
    return free


def _drop_unread(
    con: duckdb.DuckDBPyConnection, read: Iterable[Definition], readers: Counter[str]
) -> None:
    """Drops the scratch tables that no remaining table needs."""
    for one in read:
        if one.kind is Kind.SCRATCH and not readers[one.name]:
            con.execute(f"DROP TABLE {_SCRATCH}.{one.name}")
