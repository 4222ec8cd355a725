"""An open database: canned queries, SQL, and the trace processor on the original file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import duckdb

from traceql.errors import DatabaseError, QueryInvalid, TraceNotFound, TraceqlError
from traceql.files import is_database
from traceql.query import Chart, bound, catalog, query_named
from traceql.resources import SCHEMA_VERSION
from traceql.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from traceql.engine import TraceProcessor

# No statement can then reach another file, load an extension, or change these settings back.
_LOCKED_DOWN: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}


class Trace:
    """A loaded run, open for reading; closes with `with` or `close()`.

    Raises:
        DatabaseError: the file does not exist or is no traceql database.
    """

    def __init__(self, database: str | Path, *, queries: Sequence[str | Path] = ()) -> None:
        self.path = Path(database)
        self.queries = catalog([Path(folder) for folder in queries])
        self._con = _opened(self.path)

    def run(self, name: str, /, **parameters: Any) -> Result:
        """Runs a canned query, `trace.run("kernels.top", limit=10)`.

        Raises:
            QueryNotFound: no such query; the message offers the nearest.
            QueryInvalid: an unknown parameter, a value that is not allowed, or broken SQL.
        """
        query = query_named(name, self.queries)
        return self._result(query.sql, bound(query, parameters), query.head.chart)

    def sql(self, sql: str, parameters: dict[str, Any] | None = None) -> Result:
        """Runs one statement that reads; nothing can be written, no other file reached.

        Raises:
            QueryInvalid: DuckDB's message, in one line.
        """
        return self._result(sql, parameters or {}, None)

    def batches(self, sql: str, *, rows: int) -> "Iterator[pa.RecordBatch]":
        """The same as `sql`, for results larger than memory: at most `rows` at a time.

        Raises:
            QueryInvalid: DuckDB's message, in one line.
        """
        try:
            with self._con.cursor() as con:
                relation = con.sql(sql)
                if relation is not None:
                    yield from relation.to_arrow_reader(rows)
        except duckdb.Error as error:
            raise QueryInvalid(_one_line(error)) from None

    def perfetto(self, rank: int | None = None) -> "TraceProcessor":
        """The trace processor on a rank's file, for PerfettoSQL; the lowest rank by default.

        `ts` is the database's. Processes and threads have numbers of their own there; their names
        are the file's. Close it when done, or use `with`.

        Raises:
            TraceNotFound: no such rank, or its file has moved or changed since it was loaded.
        """
        from traceql.engine import open_trace_processor
        from traceql.reader.registry import reader_of

        path, base_ns = self.file_of(rank)
        feed = reader_of(path).feed
        return open_trace_processor(path if feed is None else feed(path, base_ns))

    def file_of(self, rank: int | None = None) -> tuple[Path, int]:
        """A rank's file, the lowest by default, and what to add to `ts` for the file's own times.

        Raises:
            TraceNotFound: no such rank, or its file has moved or changed since it was loaded.
        """
        rows = self.sql(
            "SELECT rank, path, size_bytes, file_offset_ns FROM trace ORDER BY rank"
        ).rows()
        row = next((r for r in rows if rank is None or r["rank"] == rank), None)
        if row is None:
            loaded = ", ".join(str(r["rank"]) for r in rows)
            raise TraceNotFound(f"{self.path} has no rank {rank} (it has: {loaded or 'none'})")
        path = Path(row["path"])
        if not path.is_file() or path.stat().st_size != row["size_bytes"]:
            raise TraceNotFound(f"{path} has moved or changed since it was loaded; load it again")
        return path, -row["file_offset_ns"]

    def close(self) -> None:
        self._con.close()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Trace {self.path}>"

    def _result(self, sql: str, parameters: dict[str, Any], chart: Chart | None) -> Result:
        try:
            if len(duckdb.extract_statements(sql)) > 1:
                raise QueryInvalid("more than one statement; give them one at a time")
            relation = self._con.sql(sql, params=parameters or None)
            if relation is None:
                raise QueryInvalid("the statement returns no rows; SELECT something")
            return Result(relation.to_arrow_table(), chart)
        except duckdb.Error as error:
            raise QueryInvalid(_one_line(error)) from None


def _opened(path: Path) -> duckdb.DuckDBPyConnection:
    if not path.is_file():
        makes = (
            f"traceql load {path} -o run.duckdb"
            if path.is_dir()
            else f"traceql load TRACE... -o {path}"
        )
        raise DatabaseError(f"no database {path}; {makes} makes one")
    try:
        con = duckdb.connect(str(path), read_only=True, config=_LOCKED_DOWN)
        versions = con.execute("SELECT schema_version FROM traceql_database").fetchall()
    except duckdb.Error:
        raise DatabaseError(
            f"{path} is no traceql database; traceql load TRACE... -o FILE.duckdb makes one"
        ) from None
    if versions != [(SCHEMA_VERSION,)]:
        raise DatabaseError(f"{path} was made by another version of traceql; load the traces again")
    return con


def _one_line(error: duckdb.Error) -> str:
    """DuckDB's message without the quoted statement below it."""
    return str(error).split("\n\nLINE ")[0].replace("\n", " ").strip()


def open_trace(
    path: str | Path,
    *paths: str | Path,
    queries: Sequence[str | Path] = (),
    trace_processor: str | Path | None = None,
) -> Trace:
    """Opens a database, or trace files and folders, which are loaded first.

    Loaded traces are kept in the cache folder, so that the second time is quick.

    Args:
        path: a database, a trace file or a folder of traces.
        *paths: more trace files or folders of the same run.
        queries: folders with canned queries of your own.
        trace_processor: a native trace_processor_shell for loading.

    Raises:
        TraceqlError: nothing there, or it cannot be loaded.
    """
    if not paths and is_database(Path(path)):
        return Trace(path, queries=queries)
    from traceql.cache import cached_database

    try:
        return Trace(cached_database([path, *paths], trace_processor), queries=queries)
    except OSError as error:
        raise TraceqlError(f"cannot use the cache folder: {error}") from None
