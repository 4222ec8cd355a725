"""The checklist of a run: each item is a query of the folder queries/advise."""

from pathlib import Path

import pyarrow as pa

from traceql.query import Query, queries_in
from traceql.resources import QUERIES
from traceql.result import Result
from traceql.trace import Trace

FOLDER: Path = QUERIES / "advise"
_ORDER = ("look", "unknown", "ok")


def items() -> dict[str, Query]:
    """The queries of the checklist by name."""
    return queries_in(FOLDER)


def checklist(trace: Trace) -> Result:
    """One row per item; what is worth a look first."""
    rows = [row for query in items().values() for row in trace.sql(query.sql).rows()]
    rows.sort(key=lambda row: _ORDER.index(row["state"]))
    columns = [column.name for column in next(iter(items().values())).head.columns]
    return Result(pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in columns])))
