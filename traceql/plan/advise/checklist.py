"""The checklist of a run: each item is a query of the folder queries/advise."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from traceql.database.terminology import Wording
from traceql.database.trace import Trace
from traceql.result.result import Result
from traceql.sql.query import Query, queries_in
from traceql.util.resources import QUERIES

FOLDER: Path = QUERIES / "advise"
_ORDER = ("look", "unknown", "ok")
_SENTENCES = ("item", "evidence", "advice")


def items() -> dict[str, Query]:
    """The queries of the checklist by name."""
    return queries_in(FOLDER)


def checklist(trace: Trace) -> Result:
    """One row per item; what is worth a look first."""
    rows = [_said(trace.wording, row) for one in items().values() for row in trace.select(one.sql)]
    rows.sort(key=lambda row: _ORDER.index(row["state"]))
    columns = [column.name for column in next(iter(items().values())).head.columns]
    return Result(pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in columns])))


def _said(wording: Wording, row: dict[str, Any]) -> dict[str, Any]:
    """A row whose texts are in the words of the run."""
    return row | {name: wording(row[name]) for name in _SENTENCES if row[name] is not None}
