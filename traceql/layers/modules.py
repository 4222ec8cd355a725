"""Reads modules.csv: the rules that give the kernels of a module their role."""

import csv
from pathlib import Path

import pyarrow as pa

from traceql.layers.symbols import letter

_FILE = Path(__file__).with_name("modules.csv")


_SCHEMA = pa.schema(
    [
        ("priority", pa.int64()),  # of all rules that match, the one with the lowest number decides
        ("path_pattern", pa.string()),
        ("positions", pa.string()),  # a regular expression for module.position
        ("symbols", pa.list_(pa.string())),  # the letters; all symbols if there are none
        ("role", pa.string()),
    ]
)


def module_roles() -> pa.Table:
    """The rules, one per row. Both patterns may match anywhere."""
    with _FILE.open(newline="", encoding="utf-8") as file:
        rules = [
            {
                "priority": int(row["priority"]),
                "path_pattern": row["path"],
                "positions": row["positions"],
                "symbols": [letter(name) for name in row["symbols"].split()],
                "role": row["role"],
            }
            for row in csv.DictReader(file)
        ]
    return pa.Table.from_pylist(rules, _SCHEMA)
