"""The tables of an open database, which are made when a statement first reads them."""

from collections.abc import Iterator, Set
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import gettempdir
from threading import RLock
from weakref import WeakSet

import duckdb

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
from traceql.sql.execute import make_macros, present
from traceql.sql.second_connection import search_path_of
from traceql.sql.tables_read import read_by
from traceql.util.files import draft_folder
from traceql.util.text import literal


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
