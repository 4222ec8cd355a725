"""Finds which steps and operations of different ranks belong together, and the ranks' clocks."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa

from traceql.collectives.clocks import write_clocks
from traceql.collectives.ends import Difference, Ints
from traceql.collectives.groups import operation_groups
from traceql.collectives.layout import write_layout
from traceql.collectives.pairing import Series, alike, shared_units
from traceql.loading.arrow import columns_of, write_table

_PAIRED = pa.schema([("kernel_id", pa.int64()), ("group_id", pa.int64()), ("unit", pa.int64())])
_GROUP = pa.schema([("group_id", pa.int64()), ("ranks", pa.string()), ("size", pa.int64())])
Ranks = Mapping[int, Series]


def pair_operations(con: duckdb.DuckDBPyConnection) -> None:
    """Says which operations of table `operation` may be one over ranks.

    Writes `layout`; `clock`, how each rank's clock runs against the first rank's;
    `communication_group`; and `paired`: of each operation its group and the number of its unit (a
    step, or an operation without one), the same on all ranks.
    """
    groups, of_described = operation_groups(con, write_layout(con))
    by_group = _series(con, of_described)
    clocks = write_clocks(con, [(groups[n].directed, ranks) for n, ranks in by_group.items()])
    paired = [_PAIRED.empty_table()]
    for number, ranks in by_group.items():
        on_one_clock = {rank: _corrected(s, clocks.get(rank)) for rank, s in ranks.items()}
        paired += [
            pa.table([s.kernel_id, np.full(len(s), number), unit], schema=_PAIRED)
            for s, unit in _units(on_one_clock, directed=groups[number].directed)
        ]
    write_table(con, "paired", pa.concat_tables(paired))
    rows = [{"group_id": n, "ranks": g.label, "size": g.size} for n, g in enumerate(groups)]
    write_table(con, "communication_group", pa.Table.from_pylist(rows, _GROUP))


def _series(
    con: duckdb.DuckDBPyConnection, of_described: Mapping[int, int]
) -> dict[int, dict[int, Series]]:
    """Operations of each group and rank."""
    operations = con.sql("""
        SELECT described_id, rank, kernel_id, ts, end_ts, key, unit, kind,
            COALESCE(sequence, -1) AS sequence, synchronising
        FROM operation
        ORDER BY rank, ts, kernel_id
    """)
    columns = dict(columns_of(operations))
    described, rank = columns.pop("described_id"), columns.pop("rank")
    group = np.array([of_described[d] for d in described.tolist()], np.int64)
    found: dict[int, dict[int, Series]] = defaultdict(dict)
    for number, one in sorted(set(zip(group.tolist(), rank.tolist(), strict=True))):
        own = (group == number) & (rank == one)
        found[number][one] = Series(one, **{name: c[own] for name, c in columns.items()})
    return found


def _corrected(series: Series, clock: Difference | None) -> Series:
    if clock is None:
        return series
    return replace(series, ts=clock.corrected(series.ts), end_ts=clock.corrected(series.end_ts))


def _units(ranks: Ranks, *, directed: bool) -> list[tuple[Series, Ints]]:
    """For each rank its operations' units, numbered as on the rank that has most; -1 without."""
    reference = max(ranks.values(), key=len)
    found = []
    for series in ranks.values():
        if series is reference:
            found.append((series, series.unit_of_operation))
        elif series.is_numbered and reference.is_numbered:
            there = {sequence: unit for unit, sequence in enumerate(reference.sequence.tolist())}
            unit = [there.get(sequence, -1) for sequence in series.sequence.tolist()]
            found.append((series, np.array(unit, np.int64)))
        elif directed:
            found.append((series, _in_order(reference, series)))
        else:
            found.append((series, shared_units(reference, series)))
    return found


def _in_order(reference: Series, series: Series) -> Ints:
    """A send may end long before it is received: only the order tells."""
    unit = np.full(len(series), -1)
    pairs = alike(reference, series)
    if pairs is not None:
        unit[pairs[1]] = pairs[0]
    return unit
