"""The answers of the tools, as values for JSON. Each raises a TraceqlError."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from traceql.database.database import Database
from traceql.errors import DatabaseError, QueryNotFound, TraceqlError
from traceql.result import RowStream
from traceql.result.text_table.values import plain, python_rows
from traceql.sql.query import Query, bound, catalog, query_named
from traceql.sql.registry import public_tables
from traceql.util.resources import DEFINITIONS
from traceql.util.text import printable, shortened, suggestion

Arguments = Mapping[str, Any]

DEFAULT_ROWS, MAX_ROWS = 50, 1_000
_BATCH_ROWS = 4_096
_MAX_LETTERS = 40_000  # of all rows together
_MAX_VALUE_LETTERS = 1_000
_SUFFIX = ".duckdb"
_MAX_LISTED = 20  # databases in a message
_HEADING = re.compile(r"^(#{2,}) (.+)$", re.MULTILINE)
_CONTENTS = """
    SELECT
        (SELECT list(rank ORDER BY rank) FROM trace WHERE rank IS NOT NULL) AS ranks,
        (SELECT MAX(world_size) FROM trace) AS world_size,
        (SELECT string_agg(DISTINCT device_name, ', ') FROM trace) AS devices,
        (SELECT COUNT(DISTINCT (rank, number)) FROM step) AS steps,
        (SELECT COUNT(*) FROM kernel) AS kernels,
        (SELECT MAX(ts + dur) - MIN(ts) FROM kernel) AS recorded_ns,
        (SELECT COUNT(*) FROM finding) AS findings
"""


class Databases:
    """The databases that an assistant may read; each call opens it again, so it sees later loads.

    Args:
        paths: databases, and folders whose databases (*.duckdb) are listed at each call.

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
        """All queries by name, read again at each call, with those of the user."""
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
        more = ", ..." if len(files) > _MAX_LISTED else ""
        raise DatabaseError(f"{why} of {', '.join(list(files)[:_MAX_LISTED])}{more}")


def databases(runs: Databases, _arguments: Arguments) -> list[dict[str, Any]]:
    found = []
    for name in runs.names():
        try:
            with runs.opened(name) as trace:
                row = trace.sql(_CONTENTS).rows()[0]
                found.append({"database": name, **_excerpt(trace), **row})
        except TraceqlError as error:
            found.append({"database": name, "error": str(error)})
    return found


def findings(runs: Databases, arguments: Arguments) -> dict[str, Any]:
    with runs.opened(arguments.get("database")) as trace:
        found = []
        for row in trace.query("overview.findings"):
            # What shows it is a call of run_query.
            shown = {"name": row.pop("query"), "parameters": dict(row.pop("parameters"))}
            found.append({**_without_nulls(row), "run_query": shown})
        empty = query_named("overview.findings", trace.queries).head.empty
        failed = _first_rows(trace, "quality.ledger", failed=True)
        return _excerpt(trace) | {
            "findings": found or f"none: {empty}",
            "lost": _first_rows(trace, "overview.lost"),
            "undecided": _first_rows(trace, "overview.causes", state="undecided"),
            "headlines": _first_rows(trace, "overview.headlines"),
            "ranks": _first_rows(trace, "overview.run"),
            "failed_checks_of_the_ledger": failed if failed["rows"] else "none: nothing was lost",
        }


def queries(runs: Databases, arguments: Arguments) -> list[dict[str, Any]]:
    found = runs.queries()
    if "names" not in arguments:
        return [{"name": query.name, "rows": query.head.summary} for query in found.values()]
    named = [query_named(name, found) for name in arguments["names"]]
    return [_description(query, with_sql=arguments.get("sql", False)) for query in named]


def _description(query: Query, *, with_sql: bool) -> dict[str, Any]:
    head = query.head
    return {
        "name": query.name,
        "rows": head.summary,
        "text": head.text,
        "parameters": {
            parameter.name: _without_nulls(
                {
                    "type": parameter.type.__name__,
                    "text": parameter.meaning,
                    "default": parameter.default,
                    "values": parameter.values or None,
                }
            )
            for parameter in head.parameters
        },
        "columns": {column.name: f"{column.type}: {column.text}" for column in head.columns},
    } | ({"sql": query.sql} if with_sql else {})


def run_query(runs: Databases, arguments: Arguments) -> dict[str, Any]:
    with runs.opened(arguments.get("database")) as trace:
        query = query_named(arguments["name"], trace.queries)
        parameters = bound(query, arguments.get("parameters", {}))
        page = _query_page(trace, query, parameters, arguments)
        notes = {}
        if not page["total_rows"] and query.head.empty:
            notes["why_no_rows"] = query.head.empty
        if parameters.get("limit") and page["total_rows"] == parameters["limit"]:
            notes["limited"] = (
                f"by the query's own parameter limit = {parameters['limit']}; 0 gives all rows"
            )
        return _excerpt(trace) | {"rows_are": query.head.summary} | notes | page


def tables(_runs: Databases, arguments: Arguments) -> list[dict[str, Any]]:
    found = public_tables()
    if "names" not in arguments:
        return [{"name": name, "rows": one.summary} for name, one in found.items()]
    for name in arguments["names"]:
        if name not in found:
            hint = suggestion(name, found) or "call tables without names to list them"
            raise QueryNotFound(f"no table '{name}'; {hint}")
    return [
        {
            "name": name,
            "rows": found[name].summary,
            "columns": {one.name: f"{one.type}: {one.text}" for one in found[name].columns},
        }
        for name in arguments["names"]
    ]


def sql(runs: Databases, arguments: Arguments) -> dict[str, Any]:
    with runs.opened(arguments.get("database")) as trace:
        batches = trace.batches(arguments["statement"], {}, rows=_BATCH_ROWS, public=True)
        return _excerpt(trace) | _page(batches, arguments)


def definitions(_runs: Databases, arguments: Arguments) -> Any:
    """A section by its heading in any case, with its subsections; else all headings."""
    definitions_text = all_definitions()
    heads, sections = list(_HEADING.finditer(definitions_text)), {}
    for number, head in enumerate(heads):
        later = (other.start() for other in heads[number + 1 :] if len(other[1]) <= len(head[1]))
        end = next(later, len(definitions_text))
        sections[head[2]] = definitions_text[head.start() : end].strip()
    if "section" not in arguments:
        return {"sections": list(sections)}
    name = arguments["section"]
    word = name.casefold()
    for heading, text in sections.items():
        if heading.casefold() == word:
            return text
    near = [heading for heading, text in sections.items() if word in text.casefold()]
    hint = f"it is in: {', '.join(near)}" if near else f"there are: {', '.join(sections)}"
    raise TraceqlError(f"no section '{name}'; {hint}")


def all_definitions() -> str:
    return DEFINITIONS.read_text(encoding="utf-8")


def _excerpt(database: Database) -> dict[str, str]:
    """The part of the run that all numbers are of, if it is not the whole run."""
    return {"excerpt": database.excerpt_info.text} if database.excerpt_info else {}


def _first_rows(database: Database, name: str, **parameters: Any) -> dict[str, Any]:
    """The rows of a query, cut where a run has very many ranks."""
    query = query_named(name, database.queries)
    return _query_page(database, query, bound(query, parameters), {})


def _query_page(
    database: Database, query: Query, parameters: dict[str, Any], arguments: Arguments
) -> dict[str, Any]:
    batches = database.batches(query.sql, parameters, rows=_BATCH_ROWS, public=False)
    return _page(batches, arguments)


def _page(stream: RowStream, arguments: Arguments) -> dict[str, Any]:
    """The columns, some rows as lists, the number of all rows, and the offset of the next page.

    All rows are computed, to count them, but only a batch is in memory at once.
    """
    offset, max_rows = arguments.get("offset", 0), arguments.get("max_rows", DEFAULT_ROWS)
    rows: list[list[Any]] = []
    letters = total = cut = 0
    is_full = False
    for batch in stream:
        start = max(0, offset - total)
        total += batch.num_rows
        for row in python_rows(batch.slice(start, max_rows - len(rows))) if not is_full else ():
            values = [plain(value) for value in row.values()]
            short = [_shortened(value) for value in values]
            letters += len(json.dumps(short, default=str, ensure_ascii=False))
            is_full = bool(rows) and letters > _MAX_LETTERS
            if is_full:
                break
            rows.append(short)
            cut += sum(a is not b for a, b in zip(values, short, strict=True))
    page: dict[str, Any] = {"total_rows": total}
    if (after := offset + len(rows)) < total:
        page["next_offset"] = after
    if cut:
        page["shortened"] = (
            f"{cut} values of more than {_MAX_VALUE_LETTERS:,} letters end in …; "
            "sql with substr() gives the rest"
        )
    return page | {"columns": stream.schema.names, "rows": rows}


def _shortened(value: Any) -> Any:
    if isinstance(value, int | float | None):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return shortened(text, _MAX_VALUE_LETTERS) if len(text) > _MAX_VALUE_LETTERS else value


def _without_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
