"""Tables of a comparison that are made of Python rows."""

import subprocess
import sys

import pyarrow as pa

from traceql.compare.python_rows import table_of

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("ns", pa.int64()),
        ("share", pa.float64()),
        ("names", pa.list_(pa.string())),
        ("layers", pa.list_(pa.struct([("layer", pa.int64()), ("pct", pa.float64())]))),
    ]
)
ROWS: list[dict[str, object]] = [
    {"name": None, "ns": None, "share": None, "names": None, "layers": None},
    {
        "name": 'é, "\n{\0 2026-01-01', "ns": -(2**63), "share": 0.1 + 0.2, "names": [],
        "layers": [{"layer": 3, "pct": 1e-300}, {"layer": 2**62, "pct": None}],
    },
    {"name": "true", "ns": 2**63 - 1, "share": 3, "names": ["a", "1"], "layers": []},
]  # fmt: skip


def test_rows_are_those_of_pyarrow() -> None:
    assert table_of(ROWS, SCHEMA) == pa.Table.from_pylist(ROWS, schema=SCHEMA)
    many = ROWS[1:] * 20_000
    assert table_of(many, SCHEMA).to_pylist() == many


def test_no_rows_are_a_table_with_all_columns() -> None:
    assert table_of([], SCHEMA) == SCHEMA.empty_table()


def test_pandas_is_not_imported() -> None:
    code = (
        "import sys, pyarrow as pa; from traceql.compare.python_rows import table_of;"
        "table_of([{'a': 1}], pa.schema([('a', pa.int64())])); sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
