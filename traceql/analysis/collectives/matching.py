"""Finds the steps and operations of different ranks that belong together."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from traceql.analysis.collectives.ends import Ints
from traceql.analysis.collectives.pairing import Series, alike, shared_units
from traceql.util.arrow_duckdb import Columns

Ranks = Mapping[int, Series]


def series_by_communicator(operations: Columns) -> dict[int, dict[int, Series]]:
    """The operations of each communicator, by rank; communicators and ranks are in order.

    Args:
        operations: the columns communicator_id, rank and those of Series, in order of time.
    """
    columns = dict(operations)
    communicator, rank = columns.pop("communicator_id"), columns.pop("rank")
    found: dict[int, dict[int, Series]] = defaultdict(dict)
    for number, one in sorted(set(zip(communicator.tolist(), rank.tolist(), strict=True))):
        own = (communicator == number) & (rank == one)
        found[number][one] = Series(one, **{name: c[own] for name, c in columns.items()})
    return found


def shared_numbers(ranks: Ranks, *, sender: int | None) -> list[tuple[Series, Ints]]:
    """For each rank of a communicator, its operations with a number for the unit of each.

    A unit is a step, or a single operation outside steps. Numbers are those of the units on the
    rank that has most operations; they are the same on all ranks. An operation whose unit that
    rank lacks has the number -1.

    Args:
        ranks: the operations of each rank.
        sender: the rank that sends, if data goes one way. Then a send may end long before it is
            received, so that units are matched by their order alone.
    """
    reference = max(ranks.values(), key=len)
    found = []
    for series in ranks.values():
        if series is reference:
            found.append((series, series.unit_of_operation))
        elif series.is_numbered and reference.is_numbered:
            there = {sequence: unit for unit, sequence in enumerate(reference.sequence.tolist())}
            unit = [there.get(sequence, -1) for sequence in series.sequence.tolist()]
            found.append((series, np.array(unit, np.int64)))
        elif sender is not None:
            found.append((series, _in_order(reference, series, sender)))
        else:
            found.append((series, shared_units(reference, series)))
    return found


def _in_order(reference: Series, series: Series, sender: int) -> Ints:
    """For each operation of `series`, its counterpart on the reference by order; -1 if none."""
    unit = np.full(len(series), -1)
    pairs = alike(reference, series, sender=sender)
    if pairs is not None:
        unit[pairs[1]] = pairs[0]
    return unit
