"""Which role the kernels of a module have: the rules of modules.csv."""

import csv
from pathlib import Path

from traceql.layers.symbols import letter

_FILE = Path(__file__).with_name("modules.csv")


def module_roles() -> list[dict[str, object]]:
    """One row per rule, for table `module_role`; symbols by their letters."""
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
