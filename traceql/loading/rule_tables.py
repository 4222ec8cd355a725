"""Data beside the queries that they join: links and their peaks, thresholds of findings."""

import csv

import duckdb
import pyarrow as pa

from traceql.loading.arrow import write_table
from traceql.resources import QUERIES

_RULES = QUERIES / "rules"
_LINK = pa.schema(
    [
        ("position", pa.int64()),
        ("device", pa.string()),
        ("medium", pa.string()),
        ("link", pa.string()),
        ("peak_gbps", pa.float64()),
        ("source", pa.string()),
    ]
)
_FINDING_RULE = pa.schema(
    [
        ("finding", pa.string()),
        ("notable", pa.float64()),
        ("severe", pa.float64()),
        ("unit", pa.string()),
        ("evidence", pa.string()),
        ("advice", pa.string()),
        ("source", pa.string()),
    ]
)
_NUMBERS = ("peak_gbps", "notable", "severe")


def write_rule_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Writes tables `link` and `finding_rule`."""
    write_table(con, "link", _table("links.csv", _LINK))
    write_table(con, "finding_rule", _table("findings.csv", _FINDING_RULE))


def _table(name: str, schema: pa.Schema) -> pa.Table:
    with (_RULES / name).open(newline="", encoding="utf-8") as file:
        rows = [
            {"position": position}
            | {key: float(value) if key in _NUMBERS else value for key, value in row.items()}
            for position, row in enumerate(csv.DictReader(file))
        ]
    return pa.Table.from_pylist(rows, schema)
