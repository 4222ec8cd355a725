"""The databases that an assistant may read: those that the user named, and no other file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from traceql.database.database import Database
from traceql.errors import DatabaseError
from traceql.sql.query import Query, catalog
from traceql.util.text import printable

_SUFFIX = ".duckdb"
_MOST_LISTED = 20


class Databases:
    """Opens a database for each call, so that the next call sees what a load has replaced.

    Args:
        paths: databases, and folders whose databases (*.duckdb) are listed anew at each call.
        queries: folders with the user's own queries.

    Raises:
        DatabaseError: there is nothing at a path.
    """

    def __init__(self, paths: Sequence[Path], queries: Sequence[Path] = ()) -> None:
        for path in paths:
            if not path.exists():
                raise DatabaseError(
                    f"{path} does not exist; create it with traceql load TRACE... -o {path}"
                )
        self._paths = paths
        self._queries = queries
        self._open: Database | None = None

    def queries(self) -> dict[str, Query]:
        """All queries by name, read anew, with those of the user."""
        return catalog(self._queries)

    def names(self) -> list[str]:
        """The paths as the user gave them; those in a folder begin with the folder."""
        return list(self._files())

    @contextmanager
    def opened(self, name: str | None = None) -> Iterator[Database]:
        """The database of that name; without a name, the only one.

        Raises:
            DatabaseError: it is none of `names()`, it cannot be opened, or several need a name.
        """
        with Database(self._file(name), queries=self._queries) as trace:
            self._open = trace
            try:
                yield trace
            finally:
                self._open = None

    def interrupt(self) -> None:
        """Ends the statement that another thread runs in the open database, if there is one."""
        if (trace := self._open) is not None:
            trace.interrupt()

    def _files(self) -> dict[str, Path]:
        found: list[Path] = []
        for path in self._paths:
            found += sorted(path.glob(f"*{_SUFFIX}")) if path.is_dir() else [path]
        return {printable(str(path)): path for path in found}

    def _file(self, name: str | None) -> Path:
        files = self._files()
        if not files:
            folders = ", ".join(map(str, self._paths))
            raise DatabaseError(f"no *{_SUFFIX} file in {folders}; create one with traceql load")
        if name is None and len(files) == 1:
            return next(iter(files.values()))
        if name in files:
            return files[name]
        why = "several databases: name one" if name is None else f"no database '{name}'"
        more = ", ..." if len(files) > _MOST_LISTED else ""
        raise DatabaseError(f"{why} of {', '.join(list(files)[:_MOST_LISTED])}{more}")
