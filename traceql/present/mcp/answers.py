"""The answers of the tools, as values that JSON can hold. Each raises a TraceqlError."""

from collections.abc import Mapping
from typing import Any

from traceql.database.database import Database
from traceql.errors import QueryNotFound, TraceqlError
from traceql.present.mcp.databases import Databases
from traceql.present.mcp.definitions import section_named, sections
from traceql.present.mcp.rows import BATCH_ROWS, USUAL_ROWS, Part, part_of
from traceql.sql.query import Query, bound, query_named
from traceql.sql.registry import public_tables
from traceql.util.text import suggestion

Arguments = Mapping[str, Any]

_CONTENTS = """
    SELECT
        (SELECT list(rank ORDER BY rank) FROM trace) AS ranks,
        (SELECT MAX(world_size) FROM trace) AS world_size,
        (SELECT string_agg(DISTINCT device_name, ', ') FROM trace) AS devices,
        (SELECT COUNT(*) FROM step) AS steps,
        (SELECT COUNT(*) FROM kernel) AS kernels,
        (SELECT MAX(ts + dur) - MIN(ts) FROM kernel) AS recorded_ns,
        (SELECT COUNT(*) FROM finding) AS findings
"""


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
        found = [_finding(row) for row in trace.query("overview.findings")]
        empty = query_named("overview.findings", trace.queries).head.empty
        failed = _all_of(trace, "quality.ledger", failed=True)
        return _excerpt(trace) | {
            "findings": found or f"none: {empty}",
            "headlines": _all_of(trace, "overview.headlines"),
            "ranks": _all_of(trace, "overview.run"),
            "failed_checks_of_the_ledger": failed if failed["rows"] else "none: nothing was lost",
        }


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    """A finding whose evidence is a call of run_query."""
    evidence = {"name": row.pop("query"), "parameters": dict(row.pop("parameters"))}
    return {**_known(row), "evidence": evidence}


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
            parameter.name: _known(
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
        answer = _part(trace, query.sql, parameters, arguments)
        notes = {}
        if not answer["total_rows"] and query.head.empty:
            notes["why_no_rows"] = query.head.empty
        if parameters.get("limit") and answer["total_rows"] == parameters["limit"]:
            notes["limited"] = (
                f"by the query's own parameter limit = {parameters['limit']}; 0 gives all rows"
            )
        return _excerpt(trace) | {"rows_are": query.head.summary} | notes | answer


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
        return _excerpt(trace) | _part(trace, arguments["statement"], {}, arguments, public=True)


def definitions(_runs: Databases, arguments: Arguments) -> Any:
    if "section" in arguments:
        return section_named(arguments["section"])
    return {"sections": list(sections())}


def _excerpt(trace: Database) -> dict[str, str]:
    """Which part of a run all numbers are of, if it is not the whole run."""
    return {"excerpt": trace.excerpt_info.text} if trace.excerpt_info else {}


def _part(
    trace: Database,
    sql: str,
    parameters: dict[str, Any],
    arguments: Arguments,
    *,
    public: bool = False,
) -> dict[str, Any]:
    stream = trace.batches(sql, parameters, rows=BATCH_ROWS, public=public)
    return part_of(stream, Part(arguments.get("offset", 0), arguments.get("max_rows", USUAL_ROWS)))


def _all_of(trace: Database, name: str, **parameters: Any) -> dict[str, Any]:
    """The rows of a query; the first of them if a run has very many ranks."""
    query = query_named(name, trace.queries)
    return _part(trace, query.sql, bound(query, parameters), {})


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is NULL."""
    return {name: value for name, value in row.items() if value is not None}
