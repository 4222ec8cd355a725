"""Samples of counters of a JSON trace: events of phase C, whose arguments are its series."""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.arguments import text_column
from traceql.readers.dictionary_codes import DistinctValues, concatenated
from traceql.readers.formats.kineto.kineto_json import ABSENT, Event
from traceql.readers.formats.kineto.pairs import id_text
from traceql.readers.formats.kineto.times import Int64s, nanoseconds
from traceql.readers.tables import COUNTER, NAME

SAMPLE = "C"
_UNNAMED = ("", "value")  # series of counters that have but one


class Samples:
    """Collects the values of counters, batch by batch.

    Attributes:
        given: the number of values in the file; an event without any counts as one.
    """

    def __init__(self) -> None:
        self.given = 0
        self._names, self._places = DistinctValues(), DistinctValues()
        self._name: list[Int64s] = []
        self._place: list[Int64s] = []
        self._ts: list[Int64s] = []
        self._value: list[npt.NDArray[np.float64]] = []

    def add(self, events: Sequence[Event]) -> None:
        rows: list[tuple[int, int, bytes, float]] = []
        for event in events:
            series = _series(event)
            self.given += 1 if series is None else len(series)
            if event.ts is ABSENT:
                continue
            place = self._places[event.pid, event.tid]
            for key, value in (series or {}).items():
                number = _number(value)
                if number is not None:
                    rows.append((self._names[_name(event, key)], place, bytes(event.ts), number))
        if rows:
            name, place_, ts, value = zip(*rows, strict=True)
            self._name.append(np.array(name, np.int64))
            self._place.append(np.array(place_, np.int64))
            self._ts.append(nanoseconds(ts))
            self._value.append(np.array(value, np.float64))

    def table(self, places: DistinctValues) -> pa.Table:
        """The samples in the order of the file.

        Args:
            places: numbers their processes and threads, for the column `track`.
        """
        codes = pa.array(concatenated(self._name).astype(np.int32))
        numbers = places.of(list(self._places))
        columns = [
            pa.DictionaryArray.from_arrays(codes, text_column(self._names)),
            pa.nulls(len(codes), NAME),
            pa.array(concatenated(self._ts)),
            pa.array(np.concatenate([np.empty(0), *self._value])),
            pa.array(numbers[concatenated(self._place)]),
        ]
        return pa.table(columns, schema=COUNTER)


def _series(event: Event) -> dict[str, Any] | None:
    """The values of a sample by the name of their series; None if it has none."""
    try:
        found = json.loads(bytes(event.args))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(value: Any) -> float | None:
    """A value that can be drawn, which some programs write as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _name(event: Event, series: str) -> str:
    """The name of a counter, its id if it has one, and its series, as Perfetto shows it."""
    own = "" if series in (*_UNNAMED, event.name) else series
    return " ".join(
        str(part) for part in (event.name, id_text(event), own) if part not in (None, "")
    )
