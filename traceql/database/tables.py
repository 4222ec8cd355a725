"""The tables of an open database, which are made when a statement first reads them."""

from collections.abc import Iterator, Set
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import gettempdir
from threading import RLock

import duckdb

from traceql.database.first_use_notice import Done, progress_of
from traceql.database.loading.first_use import add_tables, every_table
from traceql.database.loading.log_beside import require_no_log
from traceql.database.opening import opened_database, public_cursor
from traceql.errors import (
    DatabaseError,
    DatabaseReplaced,
    DefinitionInvalid,
    QueryInvalid,
    TraceqlError,
)
from traceql.sql.execute import make_macros, present
from traceql.sql.tables_read import read_by
from traceql.util.drafts import draft_folder


class Tables:
    """A read-only connection to a database, and to its file as it grows.

    Attributes:
        con: sees all schemas.
        public: sees the schema main.
    """

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection) -> None:
        self.path = self._file = path
        self._lock = RLock()
        self._after = ExitStack()
        self._has_answered = False
        self._use(con)

    def read_by(
        self, *statements: str, public: bool = False, answers: bool = True
    ) -> duckdb.DuckDBPyConnection:
        """A connection on which these statements find all tables and macros that they read.

        Args:
            public: whether they see the schema main alone.
            answers: whether the user gets their rows: from then on, all answers are of one load.

        Raises:
            DatabaseError: the database was replaced by a load meanwhile, or there is no room even
                for a temporary copy of it.
            DefinitionInvalid: the definition of a table is wrong.
            QueryInvalid: it is closed.
        """
        try:
            read = [read_by(self.con, sql, public=public) for sql in statements]
        except duckdb.ConnectionException:
            raise QueryInvalid(f"{self.path} is closed; open it again") from None
        tables = frozenset().union(*(one.tables for one in read))
        macros = frozenset().union(*(one.macros for one in read))
        with self._lock:
            if missing := tables - self._present:
                self._make(missing)
            self._has_answered |= answers
            if new := macros - self._macros:
                make_macros(self.con, new)
                self._macros |= new
            return self.public if public else self.con

    def complete(self) -> Path:
        """Makes all tables; returns the file that has them, which may go when this is closed.

        Raises:
            DatabaseError: as for `read_by`.
            DefinitionInvalid: the definition of a table is wrong.
        """
        with self._lock:
            if missing := every_table() - self._present:
                self._make(missing)
            return self._file

    def close(self) -> None:
        self.public.close()
        self.con.close()
        self._after.close()

    def _use(self, con: duckdb.DuckDBPyConnection) -> None:
        """Reads from now on with this connection; statements that run go on with the old one."""
        self.con, self.public = con, public_cursor(con)
        self._present = present(con)
        ((self._load_id,),) = con.execute("SELECT load_id FROM traceql_database").fetchall()
        self._macros: set[str] = set()

    def _make(self, missing: Set[str]) -> None:
        if self._file == self.path:
            require_no_log(self.path)
        with progress_of(self.path) as done:
            try:
                self._add(missing, done)
            except (DatabaseReplaced, DefinitionInvalid):
                raise
            except (TraceqlError, OSError):
                if self._file != self.path:
                    raise
                # It is read-only, or in use: what is made lasts until this is closed.
                self._file = self._private_copy()
                self._add(missing, done)
        self._use(opened_database(self._file, otherwise="load the traces again"))

    def _add(self, missing: Set[str], done: Done) -> None:
        try:
            add_tables(self._file, missing, self._load_id, done, shown=self.path)
        except DatabaseReplaced:
            if self._has_answered:
                raise
            self._use(opened_database(self.path, otherwise="load the traces again"))
            add_tables(self._file, missing, self._load_id, done, shown=self.path)

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
        yield tables.complete()
