"""Rows of the tables that folders of results fill, with one numbering for all folders."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traceql.runs.experiment.schema import Row


@dataclass(frozen=True)
class Profiled:
    """The profiled repeat of a point.

    Attributes:
        folder: its run directory.
        peaks: measured ceilings of the GPUs, if the folder of results has them.
    """

    folder: Path
    peaks: Path | None


@dataclass
class Rows:
    """Rows of the tables of all folders that are read, with one numbering.

    Attributes:
        tables: rows by table.
        profiled: complete profiled repeats, by point_id.
    """

    tables: dict[str, list[Row]] = field(default_factory=dict)
    profiled: dict[int, Profiled] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> int:
        """Adds a row, and returns its number, from 0."""
        rows = self.tables.setdefault(table, [])
        rows.append(row)
        return len(rows) - 1

    def next_id(self, table: str) -> int:
        return len(self.tables.get(table, ()))
