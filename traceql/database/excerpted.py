"""What an excerpt says of itself, and who is told that a database is one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

TABLE = "excerpt"  # a database is an excerpt if it has this table
_SELECT = f"SELECT source, options, text FROM {TABLE}"
_listeners: list[Callable[[str], None]] = []  # of all threads: some open databases side by side


@dataclass(frozen=True)
class Excerpt:
    """Which part of a run a database has.

    Attributes:
        source: name of the database of the whole run.
        options: of the command line, that choose the same part of it.
        text: one line: the windows, how they were chosen, and their share of the run.
    """

    source: str
    options: str
    text: str


def excerpt_in(con: "duckdb.DuckDBPyConnection") -> Excerpt | None:
    """What the excerpt says of itself; None for the database of a whole run."""
    import duckdb  # not before a database is open, so that `traceql --help` does not wait

    try:
        found = con.execute(_SELECT).fetchall()
    except duckdb.CatalogException:
        return None
    return Excerpt(*found[0])


@contextmanager
def excerpts_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block, the line of each excerpt that is opened is told once."""
    told = set[str]()

    def tell_once(line: str) -> None:
        if line not in told:
            told.add(line)
            tell(line)

    _listeners.append(tell_once)
    try:
        yield
    finally:
        _listeners.remove(tell_once)


def tell_if_excerpt(con: "duckdb.DuckDBPyConnection") -> None:
    """Tells the line of a database that is opened, if it is an excerpt and anyone listens."""
    if _listeners and (found := excerpt_in(con)) is not None:
        for tell in _listeners:
            tell(found.text)
