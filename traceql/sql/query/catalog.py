"""The queries: the files in queries/ and in the user's own folders."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from traceql.errors import QueryNotFound
from traceql.sql.query.head import Head, parsed_head
from traceql.util.comment_head import source_text
from traceql.util.resources import QUERIES
from traceql.util.suggestions import suggestion

VARIABLE = "TRACEQL_QUERIES"  # the user's own folders, separated as in PATH


@dataclass(frozen=True)
class Query:
    """A query file. Its name is the file's without suffix: `kernels.top` for `kernels.top.sql`."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".sql")

    @cached_property
    def sql(self) -> str:
        return source_text(self.path)

    @cached_property
    def head(self) -> Head:
        return parsed_head(self.name, self.sql)


def catalog(folders: Sequence[Path] = ()) -> dict[str, Query]:
    """All queries by name. A user's query replaces a built-in one of the same name.

    Args:
        folders: the user's own, in addition to those in the environment variable TRACEQL_QUERIES.

    Raises:
        QueryNotFound: a folder does not exist.
    """
    from_environment = [Path(p) for p in os.environ.get(VARIABLE, "").split(os.pathsep) if p]
    found: dict[str, Query] = {}
    for folder in (QUERIES, *from_environment, *folders):
        if not folder.is_dir():
            raise QueryNotFound(
                f"folder of queries {folder} does not exist; correct --queries or TRACEQL_QUERIES"
            )
        found |= queries_in(folder)
    return dict(sorted(found.items()))


def shipped_queries() -> dict[str, Query]:
    """The queries that come with traceql, without those of the user."""
    return queries_in(QUERIES)


def queries_in(folder: Path) -> dict[str, Query]:
    """The queries in a folder, without those in its subfolders."""
    files = [file for file in sorted(folder.glob("*.sql")) if file.is_file()]
    return {query.name: query for query in map(Query, files)}


def query_named(
    name: str, queries: dict[str, Query], *, listed_by: str = "traceql queries"
) -> Query:
    """The query of that name.

    Args:
        listed_by: the command that lists them.

    Raises:
        QueryNotFound: the message suggests names that are close.
    """
    if name in queries:
        return queries[name]
    hint = suggestion(name, queries) or f"list them with {listed_by}"
    raise QueryNotFound(f"no query '{name}'; {hint}")
