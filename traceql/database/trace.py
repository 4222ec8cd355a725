"""An open database: queries, SQL, and PerfettoSQL on the original trace files."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from shlex import quote
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import duckdb

from traceql.database.excerpted import Excerpt, excerpt_in
from traceql.database.opening import opened_database
from traceql.database.statement import relation, result
from traceql.database.tables import Tables
from traceql.database.terminology import Wording, wording
from traceql.errors import DatabaseError, QueryInvalid, TraceNotFound, TraceqlError
from traceql.result.result import Result
from traceql.result.row_stream import RowStream, without_statement
from traceql.sql.query import LIMIT, Query, bound, catalog, query_named
from traceql.sql.registry import place_of
from traceql.sql.second_connection import second_connection
from traceql.util.drafts import draft_folder
from traceql.util.files import is_database

if TYPE_CHECKING:
    from traceql.database.excerpt import Choice
    from traceql.readers.trace_processor import TraceProcessor


class Trace(AbstractContextManager["Trace"]):
    """A loaded run, opened read-only. Close it with `with` or `close()`.

    Args:
        database: a file made by `traceql.load`.
        queries: folders with your own queries.

    Raises:
        DatabaseError: the file does not exist, is not a traceql database, or is locked by a program
            that may write it.
    """

    def __init__(self, database: str | Path, *, queries: Sequence[str | Path] = ()) -> None:
        self.path = Path(database)
        self._after = ExitStack()  # what is left to do when it is closed
        # Options of commands that choose this excerpt of the database that the user named.
        self.options = ""
        self._queries = queries
        self._catalog = catalog([Path(folder) for folder in queries])
        self._tables = Tables(self.path, _opened(self.path))
        self._cursors: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()

    @cached_property
    def wording(self) -> Wording:
        """What to call the devices of the run."""
        dialects = self.select("SELECT DISTINCT dialect FROM trace")
        return wording([row["dialect"] for row in dialects])

    @property
    def argument(self) -> str:
        """What names this trace in a command, as a shell in its folder reads it."""
        return f"{quote(self.path.name)} {self.options}".strip()

    @cached_property
    def excerpted(self) -> Excerpt | None:
        """Which part of a run the database has, if it is an excerpt; None if it has all."""
        return excerpt_in(self._tables.con)

    def excerpt(
        self,
        *,
        from_ns: int | None = None,
        to_ns: int | None = None,
        steps: int | tuple[int, int] | None = None,
        sample: int | None = None,
    ) -> "Trace":
        """Opens an excerpt, in a temporary file that is removed when it is closed.

        Args:
            from_ns: start of a span of time, ns since the run's first event; by default that event.
            to_ns: its end, which is not in it; by default the end of the recording.
            steps: instead, a step (step.step_id), or the first and the last one of several; the
                same iterations of all ranks are in the excerpt.
            sample: instead, every so many iterations of each phase.

        Raises:
            TraceqlError: there is no such time or step; the message says what there is.
        """
        from traceql.database.excerpt import Choice

        of_steps = (steps, steps) if isinstance(steps, int) else steps
        return self.excerpt_of(Choice(from_ns, to_ns, of_steps, sample))

    def excerpt_of(self, choice: "Choice") -> "Trace":
        """Opens an excerpt; see `excerpt`."""
        from traceql.database.excerpt import cut

        with ExitStack() as stack:
            file = stack.enter_context(draft_folder(Path(gettempdir()))) / self.path.name
            cut(self.path, file, choice)
            part = Trace(file, queries=self._queries)
            part.options = choice.options
            part._after = stack.pop_all()
        return part

    @cached_property
    def queries(self) -> dict[str, Query]:
        """The queries by name, with heads in the words of the run."""
        return self.wording.queries(self._catalog)

    def run(self, name: str, /, **parameters: Any) -> Result:
        """Runs a query, e.g. `trace.run("kernels.top", limit=10)`; `limit=0` gives all rows.

        Raises:
            QueryNotFound: no such query; the message suggests the closest name.
            QueryInvalid: an unknown parameter, a value that is not allowed, or invalid SQL.
        """
        query = query_named(name, self.queries)
        values = bound(query, parameters)
        con = self._tables.read_by(query.sql)
        return result(con, query.sql, values, query.head.chart, limit=values.get(LIMIT))

    def count(self, name: str, /, **parameters: Any) -> int:
        """The number of rows that a query has without a limit.

        Raises:
            QueryNotFound: no such query; the message suggests the closest name.
            QueryInvalid: an unknown parameter, a value that is not allowed, or invalid SQL.
        """
        query = query_named(name, self.queries)
        values = bound(query, parameters)
        unlimited = values | ({LIMIT: None} if LIMIT in values else {})
        try:
            counted = relation(self._tables.read_by(query.sql), query.sql, unlimited)
            ((rows,),) = counted.aggregate("COUNT(*)").fetchall()
        except duckdb.Error as error:
            raise QueryInvalid(without_statement(error)) from None
        return int(rows)

    def sql(self, sql: str, parameters: dict[str, Any] | None = None) -> Result:
        """Runs one read-only statement; it can neither write nor read other files.

        It sees the public tables by their names, and others as internal.NAME and reference.NAME.

        Raises:
            QueryInvalid: with DuckDB's message in one line.
        """
        with _moved_tables_named():
            return result(self._tables.read_by(sql, public=True), sql, parameters or {})

    def select(self, sql: str, parameters: dict[str, Any] | None = None) -> Result:
        """Like `sql`, for statements of traceql and canned queries: sees all tables by their names.

        Raises:
            QueryInvalid: with DuckDB's message in one line.
        """
        return result(self._tables.read_by(sql, answers=False), sql, parameters or {})

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
            con = second_connection(self._tables.read_by(sql, public=public))
            self._cursors.add(con)
            try:
                return RowStream(con, relation(con, sql, parameters or {}).to_arrow_reader(rows))
            except duckdb.Error as error:
                raise QueryInvalid(without_statement(error)) from None

    def make(self, queries: Iterable[str]) -> None:
        """Makes the tables that these queries read, which is faster than for one after the other.

        Raises:
            QueryNotFound: no such query; the message suggests the closest name.
        """
        statements = [query_named(name, self.queries).sql for name in queries]
        self._tables.read_by(*statements, answers=False)

    def perfetto(self, rank: int | None = None) -> "TraceProcessor":
        """Opens a rank's trace file in the trace processor, for PerfettoSQL.

        `ts` is the same as in the database. The trace processor numbers processes and threads in
        its own way; their names are those of the file. Close it when done, or use `with`.

        Args:
            rank: the lowest by default.

        Raises:
            TraceNotFound: no such rank, or its file was moved or changed after it was loaded.
        """
        from traceql.readers.trace_processor import open_trace_processor

        fed = self.feed(rank)
        return open_trace_processor(self.file_of(rank)[0] if fed is None else fed)

    def feed(self, rank: int | None = None) -> Iterator[bytes] | None:
        """A rank's trace file in a form that the trace processor accepts, with `ts` as here.

        None if it opens the file itself. Raises what `perfetto` raises.
        """
        from traceql.readers.registry import reader_of

        path, base_ns = self.file_of(rank)
        feed = reader_of(path).feed
        return None if feed is None else feed(path, base_ns, self._metadata_of(rank))

    def _metadata_of(self, rank: int | None) -> Mapping[str, Any]:
        """What a rank's file says about it; the lowest rank by default."""
        rows = self.select(
            "SELECT metadata FROM trace WHERE rank = COALESCE($rank, rank) ORDER BY rank LIMIT 1",
            {"rank": rank},
        ).rows()
        found: Mapping[str, Any] = json.loads(rows[0]["metadata"])
        return found

    def file_of(self, rank: int | None = None) -> tuple[Path, int]:
        """A rank's trace file, and what to add to `ts` to get the times in the file, ns.

        Args:
            rank: the lowest by default.

        Raises:
            TraceNotFound: no such rank, or its file was moved or changed after it was loaded.
        """
        rows = self.select(
            "SELECT rank, path, size_bytes, file_offset_ns FROM trace ORDER BY rank"
        ).rows()
        row = next((r for r in rows if rank is None or r["rank"] == rank), None)
        if not rows:
            raise TraceNotFound(f"{self.path} has no trace; load one with traceql load TRACE")
        if row is None:
            loaded = ", ".join(str(r["rank"]) for r in rows)
            raise TraceNotFound(f"{self.path} has no rank {rank} (it has: {loaded})")
        path = Path(row["path"])
        if not path.is_file() or path.stat().st_size != row["size_bytes"]:
            raise TraceNotFound(f"{path} was moved or changed after it was loaded; load it again")
        return path, -row["file_offset_ns"]

    def interrupt(self) -> None:
        """Ends the statements that other threads run; there they raise QueryInvalid."""
        for con in (self._tables.con, self._tables.public, *self._cursors):
            con.interrupt()

    def close(self) -> None:
        self._tables.close()
        self._after.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Trace {self.path}>"


_NO_TABLE = re.compile(r"Table with name (\w+) does not exist")


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
        if path.is_dir():
            raise DatabaseError(
                f"{path} is a folder; create a database with traceql load {path} -o run.duckdb"
            )
        raise DatabaseError(
            f"{path} does not exist; create it with traceql load TRACE... -o {path}"
        )
    return opened_database(path, otherwise="create one: traceql load TRACE... -o RUN.duckdb")


def open_trace(
    path: str | Path,
    *paths: str | Path,
    queries: Sequence[str | Path] = (),
    trace_processor: str | Path | None = None,
) -> Trace:
    """Opens a database, or loads trace files and folders first.

    A database that is loaded this way is kept in the cache folder, so that opening the same traces
    again is fast.

    Args:
        path: a database, a trace file or a folder of traces.
        *paths: more trace files or folders of the same run.
        queries: folders with your own queries.
        trace_processor: a native trace_processor_shell to load with.

    Raises:
        TraceqlError: the path does not exist or cannot be loaded.
    """
    if not paths and is_database(Path(path)):
        return Trace(path, queries=queries)
    from traceql.database.cache import cached_database

    try:
        return Trace(cached_database([path, *paths], trace_processor), queries=queries)
    except OSError as error:
        raise TraceqlError(f"cannot use the cache folder: {error}") from None
