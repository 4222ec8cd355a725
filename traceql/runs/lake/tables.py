"""The tables of a lake: those of a database, and small ones that are made of it at `add`."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from traceql.runs.compare.profile import RESULTS, columns_of, summary_of
from traceql.sql.definition import Definition
from traceql.sql.query import shipped_queries
from traceql.sql.registry import definitions
from traceql.util.comment_head import Column, comment_head, described_columns, source_text

FOLDER = Path(__file__).parent / "summaries"
SUMMARIES = ("rank_summary", "step_summary", "role_summary")  # in the order of their needs
PROFILE = "profile_"  # before the names of the tables of `traceql.runs.compare.profile`
RUN = "run"  # the column that tells the runs apart
RUN_TEXT = "Name of the run in the lake (lake_run.run)."
# A column of that name in a table itself: the path of a run directory.
OWN_RUN = "run_directory"
# Tables that are the rows of a query.
QUERIES = {"utilization": "model.mfu"}


@dataclass(frozen=True)
class StoredTable:
    """A table of which the lake has the rows of each run.

    Attributes:
        summary: what one row is.
        columns: as in the database of a run.
        sql: how it is made from such a database; None if it is there under its name.
    """

    name: str
    summary: str
    columns: tuple[Column, ...]
    sql: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns in the lake, where run tells the runs apart."""
        return [OWN_RUN if one.name == RUN else one.name for one in self.columns]


@cache
def stored_tables() -> Mapping[str, StoredTable]:
    """All tables of a lake, by name."""
    found = [
        StoredTable(one.name, one.summary, one.columns)
        for one in definitions().values()
        if one.kind.is_kept
    ]
    found += [_of_query(name, query) for name, query in QUERIES.items()]
    found += [_summary(FOLDER / f"{name}.sql") for name in SUMMARIES]
    found += [StoredTable(PROFILE + name, summary_of(name), columns_of(name)) for name in RESULTS]
    return {one.name: one for one in found}


@cache
def layout() -> str:
    """Tells the names and types of the columns of all tables; equal if these are."""
    columns = [
        (one.name, column.name, column.type)
        for one in stored_tables().values()
        for column in one.columns
    ]
    return hashlib.sha256(repr(sorted(columns)).encode()).hexdigest()[:16]


@cache
def macros() -> Mapping[str, Definition]:
    """The macros that canned queries use, by name."""
    return {name: one for name, one in definitions().items() if one.kind.is_macro}


def _of_query(name: str, query: str) -> StoredTable:
    head = shipped_queries()[query].head
    return StoredTable(name, head.summary, head.columns)


def _summary(file: Path) -> StoredTable:
    source = source_text(file)
    head = comment_head(file.name, source, ("column",))
    return StoredTable(file.stem, head.summary, described_columns(file.name, head), source)
