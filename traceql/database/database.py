"""An open database: queries and SQL."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from shlex import quote
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import duckdb

from traceql.database.cache import database_of
from traceql.database.opening import Excerpt, excerpt_in, opened_database
from traceql.database.tables import Tables, register_frames, relation, result
from traceql.database.terminology import Terminology, terminology
from traceql.errors import DatabaseError, QueryInvalid
from traceql.result import Result, RowStream, without_statement
from traceql.sql.query import LIMIT, Query, bound, catalog, query_named
from traceql.sql.registry import place_of
from traceql.util.files import draft_folder

if TYPE_CHECKING:
    from typing import Self

    from traceql.database.excerpt import ExcerptSelection

_NO_TABLE = re.compile(r"Table with name (\w+) does not exist")


class Database:
    """A loaded run, opened read-only. Close it with `with` or `close()`.

    Threads may share it: each statement has a connection of its own.

    Args:
        path: a file made by `traceql.load`.
        queries: folders with your own queries.

    Raises:
        DatabaseError: the file does not exist, is not a traceql database, or is locked by a program
            that may write it.
    """

    def __init__(self, path: str | Path, *, queries: Sequence[str | Path] = ()) -> None:
        self.path = Path(path)
        self.excerpt_options = ""  # that choose this excerpt of the database that the user named
        self._after = ExitStack()  # what is left to do when it is closed
        self._folders = queries
        self._catalog = catalog([Path(folder) for folder in queries])
        self._tables = Tables(self.path, _opened(self.path))

    @cached_property
    def terminology(self) -> Terminology:
        """What the devices of the run are called."""
        dialects = self.select("SELECT DISTINCT dialect FROM trace")
        return terminology([row["dialect"] for row in dialects])

    @property
    def command_argument(self) -> str:
        """The name of this database in a command, as a shell in its folder reads it."""
        return f"{quote(self.path.name)} {self.excerpt_options}".strip()

    @cached_property
    def excerpt_info(self) -> Excerpt | None:
        """The part of a run that the database has, if it is an excerpt; None if it has all."""
        with closing(self._tables.connection(answers=False)) as con:
            return excerpt_in(con)

    def excerpt_of(self, choice: "ExcerptSelection") -> "Self":
        """Opens an excerpt, in a temporary file that is removed when it is closed.

        Raises TraceqlError if there is no such time or step.
        """
        from traceql.database.excerpt import cut

        with ExitStack() as stack:
            file = stack.enter_context(draft_folder(Path(gettempdir()))) / self.path.name
            cut(self.path, file, choice)
            part = type(self)(file, queries=self._folders)
            part.excerpt_options = choice.options
            part._after = stack.pop_all()
        return part

    @cached_property
    def queries(self) -> dict[str, Query]:
        """The queries by name, with heads in the terms of the run."""
        return self.terminology.queries(self._catalog)

    def query(self, name: str, /, **parameters: Any) -> Result:
        """Runs a query, e.g. `query("kernels.top", limit=10)`; `limit=0` gives all rows.

        Raises:
            QueryNotFound: no such query; the message suggests the closest name.
            QueryInvalid: an unknown parameter, a value that is not allowed, or invalid SQL.
        """
        query = query_named(name, self.queries)
        values = bound(query, parameters)
        con = self._tables.connection(query.sql)
        return result(con, query.sql, values, query.head.chart, limit=values.get(LIMIT))

    def count(self, name: str, /, **parameters: Any) -> int:
        """The number of rows that a query has without a limit; raises as `query`."""
        query = query_named(name, self.queries)
        values = bound(query, parameters)
        unlimited = values | ({LIMIT: None} if LIMIT in values else {})
        try:
            counted = relation(self._tables.connection(query.sql), query.sql, unlimited)
            ((rows,),) = counted.aggregate("COUNT(*)").fetchall()
        except duckdb.Error as error:
            raise QueryInvalid(without_statement(error)) from None
        return int(rows)

    def sql(
        self,
        sql: str,
        parameters: dict[str, Any] | None = None,
        *,
        frames: Mapping[str, Any] | None = None,
    ) -> Result:
        """Runs one read-only statement; it can neither write nor read files.

        It sees the public tables by their names, and others as internal.NAME and reference.NAME.

        Args:
            parameters: values for $NAME in the statement.
            frames: data frames of pandas, Polars or Arrow, or results, by the names that they have
                in the statement.

        Raises:
            QueryInvalid: with DuckDB's message in one line.
        """
        with _moved_tables_named():
            con = self._tables.connection(sql, public=True)
            register_frames(con, frames or {})
            return result(con, sql, parameters or {})

    def select(self, sql: str, parameters: dict[str, Any] | None = None) -> Result:
        """Like `sql`, for traceql's statements and queries: sees all tables by their names."""
        return result(self._tables.connection(sql, answers=False), sql, parameters or {})

    def batches(
        self,
        sql: str,
        parameters: dict[str, Any] | None = None,
        *,
        rows: int,
        public: bool = True,
    ) -> RowStream:
        """Like `sql`, for results larger than memory: batches of at most `rows` rows, read once.

        Args:
            public: whether the statement sees the tables as in `sql`, or as in `select`.

        Raises:
            QueryInvalid: with DuckDB's message in one line; for an error in a later row, when that
                batch is read.
        """
        with _moved_tables_named():
            con = self._tables.connection(sql, public=public)
            try:
                return RowStream(con, relation(con, sql, parameters or {}).to_arrow_reader(rows))
            except duckdb.Error as error:
                raise QueryInvalid(without_statement(error)) from None

    def make(self, queries: Iterable[str]) -> None:
        """Makes the tables that these queries read, faster than for one after the other."""
        statements = [query_named(name, self.queries).sql for name in queries]
        self._tables.connection(*statements, answers=False)

    def interrupt(self) -> None:
        """Ends the statements that other threads run; there they raise QueryInvalid.

        Of tables that are being made, those begun are made first.
        """
        self._tables.interrupt()

    def close(self) -> None:
        self._tables.close()
        self._after.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"


def open_database(path: str | Path, *paths: str | Path) -> Database:
    """Opens a database, or loads trace files and folders of one run first; see `database_of`."""
    return Database(database_of(path, *paths))


@contextmanager
def _moved_tables_named() -> Iterator[None]:
    """Says where a table is that a statement names as if it were public."""
    try:
        yield
    except QueryInvalid as error:
        missing = _NO_TABLE.search(str(error))
        if not missing or not (place := place_of(missing[1])):
            raise
        raise QueryInvalid(place) from None


def _opened(path: Path) -> duckdb.DuckDBPyConnection:
    if not path.is_file():
        advice = f"does not exist; create it with traceql load TRACE... -o {path}"
        if path.is_dir():
            advice = f"is a folder; create a database with traceql load {path} -o run.duckdb"
        raise DatabaseError(f"{path} {advice}")
    return opened_database(path, otherwise="create one: traceql load TRACE... -o RUN.duckdb")
