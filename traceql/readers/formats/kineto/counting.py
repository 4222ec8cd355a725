"""Counts the events of a file for the ledger, by another way than the one that fills the tables."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.readers.formats.kineto.gathering import Gathered
from traceql.readers.phases import COMPLETE
from traceql.readers.tables import COUNT


class Counts:
    """Events by phase; slices by category, with the sum of their durations."""

    def __init__(self) -> None:
        self.phases: Counter[str] = Counter()
        self._slices: Counter[str] = Counter()
        self._dur: Counter[str] = Counter()  # ns, computed independently of the slices' durations

    def add(self, columns: Gathered) -> None:
        """Takes the events of a file, or of a section of it."""
        self.phases += columns.phases
        cats = columns.slices.cat
        names = cats.dictionary.fill_null("").to_pylist()  # NULL and "" have the same name
        codes = cats.indices.to_numpy()
        dur = np.zeros(len(names), np.int64)
        np.add.at(dur, codes, columns.slices.counted_dur)
        events = np.bincount(codes, minlength=len(names))
        for name, number, ns in zip(names, events.tolist(), dur.tolist(), strict=True):
            if number:
                self._slices[name] += number
                self._dur[name] += ns

    def include(self, other: "Counts") -> None:
        """Takes the events of another part of the file."""
        self.phases += other.phases
        self._slices += other._slices
        self._dur.update(other._dur)  # durations may be negative

    def table(self) -> pa.Table:
        """The table `count` of the contract."""
        rows: list[dict[str, Any]] = [
            {"phase": "slice", "cat": cat, "events": events, "dur": self._dur[cat]}
            for cat, events in self._slices.items()
        ]
        for phase, events in self.phases.items():
            if phase != COMPLETE:
                rows.append({"phase": phase, "cat": "", "events": events, "dur": 0})
        return pa.Table.from_pylist(rows, COUNT)


def counted(columns: Gathered) -> Counts:
    """The counts of a whole file."""
    found = Counts()
    found.add(columns)
    return found
