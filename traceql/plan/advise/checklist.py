"""The checklist of a run: settings that may cost time, each with its evidence."""

import pyarrow as pa

from traceql.database.database import Database
from traceql.result import Result
from traceql.sql.query import Query, queries_in
from traceql.util.resources import QUERIES

_ORDER = ("look", "unknown", "ok")
_SENTENCES = ("item", "evidence", "advice")


def items() -> dict[str, Query]:
    """The queries of the checklist by name."""
    return queries_in(QUERIES / "advise")


def checklist(database: Database) -> Result:
    """One row per item; what needs attention first. Texts use the terminology of the run."""
    terms = database.terminology
    rows = [
        row | {name: terms(row[name]) for name in _SENTENCES if row[name] is not None}
        for item in items().values()
        for row in database.select(item.sql)
    ]
    rows.sort(key=lambda row: _ORDER.index(row["state"]))
    columns = [column.name for column in next(iter(items().values())).head.columns]
    return Result(pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in columns])))
