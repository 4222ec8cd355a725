"""Reads modules.csv: the rules that give the kernels of a module their role."""

import csv
from pathlib import Path

from traceql.layers.symbols import letter

_FILE = Path(__file__).with_name("modules.csv")


def module_roles() -> list[dict[str, object]]:
    """The rows of table `module_role`, one per rule, with the letters of symbols."""
    with _FILE.open(newline="", encoding="utf-8") as file:
        return [
            {
                "priority": int(row["priority"]),
                "path_pattern": row["path"],
                "positions": row["positions"],
                "symbols": [letter(name) for name in row["symbols"].split()],
                "role": row["role"],
            }
            for row in csv.DictReader(file)
        ]
