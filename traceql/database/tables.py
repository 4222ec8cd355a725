"""The statements of users, and the tables that they read, made on first use."""

import re
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import gettempdir
from threading import RLock
from typing import Any
from weakref import WeakSet

import duckdb
from duckdb.sqltypes import DuckDBPyType

from traceql.database.loading.draft import add_tables, every_table, require_no_log
from traceql.database.notices import Done, first_use_progress
from traceql.database.opening import opened_database, public_search_path
from traceql.errors import (
    DatabaseError,
    DatabaseReplaced,
    DefinitionInvalid,
    QueryInvalid,
    TraceqlError,
)
from traceql.result import Result, without_statement
from traceql.sql.execute import make_macros, present
from traceql.sql.query import Chart
from traceql.sql.registry import public_tables
from traceql.sql.second_connection import search_path_of
from traceql.sql.tables_read import read_by
from traceql.util.files import draft_folder
from traceql.util.text import identifier, literal

# Types that Arrow changes or Parquet refuses: UHUGEINT wraps, TIME WITH TIME ZONE loses its zone.
_NOT_IN_ARROW = {"bignum", "bit", "interval", "time with time zone", "uhugeint", "union"}
_NESTED = {"array", "list", "map", "struct"}
_READING = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.CALL,
    duckdb.StatementType.MULTI,  # PIVOT
    duckdb.StatementType.PRAGMA,
}
_BEFORE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"  # white space and comments
_EXPLAIN = re.compile(rf"(?is){_BEFORE}EXPLAIN\b{_BEFORE}(ANALYZE\b|\([^)]*\))?")


def relation(
    con: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any]
) -> duckdb.DuckDBPyRelation:
    """The rows of a statement, which are not computed yet.

    Raises QueryInvalid if it is several statements, or one that does something else than read.
    """
    if len(duckdb.extract_statements(sql)) > 1:
        raise QueryInvalid("more than one statement; run them one at a time")
    read = sql  # EXPLAIN ANALYZE runs the statement after it
    while explained := _EXPLAIN.match(read):
        read = read[explained.end() :]
    if not all(_kind(one) in _READING for one in duckdb.extract_statements(read)):
        raise QueryInvalid("the database is read-only; use SELECT")
    relation = con.sql(sql, params=parameters or None)
    if relation is None:
        raise QueryInvalid("the statement has no result; use SELECT")
    return _held_by_arrow(relation)


def _kind(statement: duckdb.Statement) -> duckdb.StatementType | None:
    """What a statement does; None for what DuckDB can do and its Python package does not name."""
    try:
        return statement.type
    except ValueError:
        return None


def require_select(sql: str, *, what: str) -> None:
    """Refuses statements that would change something.

    Args:
        what: that can only be read, in the message.

    Raises:
        QueryInvalid: it is one, or no SQL.
    """
    try:
        kinds = {_kind(statement) for statement in duckdb.extract_statements(sql)}
    except duckdb.Error as error:
        raise QueryInvalid(without_statement(error)) from None
    if kinds - {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}:
        raise QueryInvalid(f"{what} can only be read; use SELECT")


def result(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: dict[str, Any],
    chart: Chart | None = None,
    *,
    limit: int | None = None,
) -> Result:
    """The rows of a statement, in memory.

    Raises:
        QueryInvalid: with DuckDB's message in one line.
    """
    try:
        return Result(relation(con, sql, parameters).to_arrow_table(), chart, limit=limit)
    except duckdb.Error as error:
        raise QueryInvalid(without_statement(error)) from None


def register_frames(con: duckdb.DuckDBPyConnection, frames: Mapping[str, Any]) -> None:
    """Lets the statements of this connection read data frames by their names.

    Args:
        frames: of pandas, Polars or Arrow, or results.

    Raises:
        QueryInvalid: one is no data frame, or has the name of a table.
    """
    import pyarrow as pa

    for name, frame in frames.items():
        if name.lower() in public_tables():
            raise QueryInvalid(f"frame '{name}' has the name of a table; give it another name")
        if not hasattr(frame, "__arrow_c_stream__"):
            kind = type(frame).__name__
            raise QueryInvalid(f"frame '{name}' is of type {kind}; give a data frame")
        con.register(name, pa.table(frame))


def _held_by_arrow(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Casts the columns to texts that Arrow, Python or Parquet would change or refuse."""
    cast = [_is_changed(kind) for kind in relation.types]
    if not any(cast):
        return relation
    columns = enumerate(zip(relation.columns, cast, strict=True), start=1)
    return relation.project(
        ", ".join(
            f"{f'CAST(#{place} AS VARCHAR)' if is_cast else f'#{place}'} AS {identifier(name)}"
            for place, (name, is_cast) in columns
        )
    )


def _is_changed(kind: DuckDBPyType) -> bool:
    if kind.id in _NESTED:
        return any(_is_changed(part) for _, part in kind.children if isinstance(part, DuckDBPyType))
    return kind.id in _NOT_IN_ARROW


class Tables:
    """Read-only connections to a database, and to its file as it grows.

    Attributes:
        path: the database.
        file: the file that is read: the database, or a temporary copy that has more tables.
        made: the names of the tables that the file has.
    """

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection) -> None:
        self.path = self.file = path
        self._lock = RLock()
        self._after = ExitStack()
        self._has_answered = False
        self._interrupts = 0
        self._connections: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
        self._use(con)

    def connection(
        self, *statements: str, public: bool = False, answers: bool = True
    ) -> duckdb.DuckDBPyConnection:
        """A new connection on which these statements find all tables and macros that they read.

        Args:
            public: whether they see the schema main alone.
            answers: whether the user gets their rows: from then on, all answers are of one load.

        Raises:
            DatabaseError: the database was replaced by a load meanwhile, or there is no room even
                for a temporary copy of it.
            DefinitionInvalid: the definition of a table is wrong.
            QueryInvalid: it is closed, or it was interrupted.
        """
        try:
            read = [read_by(self._con, sql, public=public) for sql in statements]
            tables = frozenset().union(*(one.tables for one in read))
            macros = frozenset().union(*(one.macros for one in read))
            with self._lock:
                self._require(tables)
                self._has_answered |= answers
                if new := macros - self._macros:
                    make_macros(self._con, new)
                    self._macros |= new
                con = self._con.cursor()
                path = self._public_path if public else self._path
        except duckdb.ConnectionException:
            raise QueryInvalid(f"{self.path} is closed; open it again") from None
        con.execute(f"SET search_path = {literal(path)}")
        self._connections.add(con)
        return con

    def make(self, names: Set[str] | None = None) -> Path:
        """Makes tables, all by default.

        Returns:
            The file that has them, which may go when this is closed.

        Raises:
            DatabaseError: as for `connection`.
            DefinitionInvalid: the definition of a table is wrong.
        """
        with self._lock:
            self._require(every_table() if names is None else names)
            return self.file

    def interrupt(self) -> None:
        """Ends the statements that other threads run, and the making of tables."""
        self._interrupts += 1
        for con in (*self._connections,):
            con.interrupt()

    def close(self) -> None:
        self._con.close()
        self._after.close()

    def _use(self, con: duckdb.DuckDBPyConnection) -> None:
        """Reads from now on with this connection; statements that run go on with the old one."""
        ((name, self._load_id),) = con.execute(
            "SELECT current_database(), load_id FROM traceql_database"
        ).fetchall()
        self._con = con
        self._path, self._public_path = search_path_of(con), public_search_path(name)
        self.made = present(con)
        self._macros: set[str] = set()

    def _require(self, names: Set[str]) -> None:
        missing = names - self.made
        if not missing:
            return
        if self.file == self.path:
            require_no_log(self.path)
        with self._progress() as done:
            try:
                self._add(missing, done)
            except (DatabaseReplaced, DefinitionInvalid, QueryInvalid):
                raise
            except (TraceqlError, OSError):
                if self.file != self.path:
                    raise
                # It is read-only, or in use: what is made lasts until this is closed.
                self.file = self._private_copy()
                self._add(missing, done)
        self._use(opened_database(self.file, otherwise="load the traces again"))

    @contextmanager
    def _progress(self) -> Iterator[Done]:
        """Reports how many tables were made, and stops when interrupted."""
        before = self._interrupts
        with first_use_progress(self.path) as report:

            def done(count: int, total: int) -> None:
                if self._interrupts > before:
                    raise QueryInvalid("interrupted while tables were made")
                report(count, total)

            yield done

    def _add(self, missing: Set[str], done: Done) -> None:
        try:
            add_tables(self.file, missing, self._load_id, done, shown=self.path)
        except DatabaseReplaced:
            if self._has_answered:
                raise
            self._use(opened_database(self.path, otherwise="load the traces again"))
            add_tables(self.file, missing, self._load_id, done, shown=self.path)

    def _private_copy(self) -> Path:
        place = Path(gettempdir())
        try:
            folder = self._after.enter_context(draft_folder(place))
            return Path(copyfile(self.path, folder / self.path.name))
        except OSError as error:
            raise DatabaseError(
                f"{self.path} cannot be written, and {place} has no room for a temporary copy "
                f"({error.strerror or error}); free some, or set TMPDIR to another folder"
            ) from None


@contextmanager
def complete_database(path: Path) -> Iterator[Path]:
    """The file of a database that has all tables: the database, or else a temporary copy.

    Raises:
        DatabaseError: it is not a database of this version of traceql, or cannot be opened now.
    """
    con = opened_database(path, otherwise="name a database that traceql load made")
    with closing(Tables(path, con)) as tables:
        yield tables.make()
