"""What is known of the rows of one owner that lie near each other in a table."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.rows import Rows
from traceql.readers.sqlite_pages import ROWID, Batch

Owner = tuple[int, ...]  # process and device, thread, or type of metrics
_LOW = 32  # bits; a sum of whole durations may not fit 64
_SUMS = ("is_kept", "is_left_out", "is_odd", "high", "low", "has_odd_time")


class Block(NamedTuple):
    """The rows of one owner in a block: numbers, duration, ns, and the first and last start."""

    number: int
    owner: Owner
    kept: int
    left_out: int
    odd: int
    dur: int
    has_odd_times: bool  # which are refused when they are read
    first: int | None
    last: int | None

    def with_more(self, other: "Block") -> "Block":
        """With other rows of the same block and owner."""
        firsts = [one.first for one in (self, other) if one.first is not None]
        lasts = [one.last for one in (self, other) if one.last is not None]
        return Block(
            self.number,
            self.owner,
            self.kept + other.kept,
            self.left_out + other.left_out,
            self.odd + other.odd,
            self.dur + other.dur,
            self.has_odd_times or other.has_odd_times,
            min(firsts, default=None),
            max(lasts, default=None),
        )


def blocks_in(export: Export, rows: Rows, bits: int, batch: Batch) -> Iterator[Block]:
    """The blocks that a batch is in; one may be in several batches.

    Args:
        bits: those of a row number that tell the rows of a block apart.
    """
    found = None if batch.rows is None else _computed(rows, bits, batch.rows)
    owners = len(rows.owner)
    for row in _selected(export, rows, bits, batch) if found is None else found:
        number, kept, left_out, odd, high, low, odd_times, first, last = row[owners:]
        dur_ns = (high << _LOW) + low
        yield Block(number, row[:owners], kept, left_out, odd, dur_ns, bool(odd_times), first, last)


def _computed(rows: Rows, bits: int, found: pa.Table) -> list[tuple[int, ...]] | None:
    """What `_selected` gives, of columns of integers; None if SQLite must tell."""
    try:
        found = found.filter(rows.where.of(found))
        kept = pc.fill_null(rows.kept.of(found), False)
        dur = pc.if_else(kept, pc.fill_null(rows.dur.of(found), 0), 0)
        odd = pc.and_(kept, pc.fill_null(rows.odd.of(found), False))
    except pa.ArrowInvalid:
        return None
    start = found[rows.start]
    keys = [f"owner_{number}" for number in range(len(rows.owner))]
    columns = {
        **dict(zip(keys, (term.of(found) for term in rows.owner), strict=True)),
        "block": pc.shift_right(found[ROWID], bits),
        "is_kept": kept,
        "is_left_out": pc.invert(kept),
        "is_odd": odd,
        "high": pc.shift_right(dur, _LOW),
        "low": pc.bit_wise_and(dur, 2**_LOW - 1),
        "has_odd_time": pc.and_(kept, pc.is_null(start)),
        "start": pc.if_else(kept, start, pa.scalar(None, pa.int64())),
    }
    wanted = [*((name, "sum") for name in _SUMS), ("start", "min"), ("start", "max")]
    groups = pa.table(columns).group_by([*keys, "block"], use_threads=False).aggregate(wanted)
    names = [*keys, "block", *(f"{name}_{what}" for name, what in wanted)]
    return list(zip(*(groups[name].to_pylist() for name in names), strict=True))


def _selected(export: Export, rows: Rows, bits: int, batch: Batch) -> list[tuple[int, ...]]:
    """By owner and block: the sums, and the first and the last start."""
    kept = f"({rows.kept.sql}) IS TRUE"
    keys = ", ".join(f"owner_{number}" for number in range(len(rows.owner)))
    start = f'"{rows.start}"'
    return export.rows(
        f"""
        SELECT
            {keys},
            block,
            SUM(is_kept),
            SUM(NOT is_kept),
            SUM(is_odd),
            SUM(dur >> {_LOW}),
            SUM(dur & {2**_LOW - 1}),
            SUM(is_kept AND start IS NULL),
            MIN(start),
            MAX(start)
        FROM (
            SELECT
                {", ".join(f"{term.sql} AS owner_{n}" for n, term in enumerate(rows.owner))},
                {ROWID} >> {bits} AS block,
                {kept} AS is_kept,
                {kept} AND ({rows.odd.sql}) AS is_odd,
                CASE WHEN {kept} THEN COALESCE({rows.dur.sql}, 0) ELSE 0 END AS dur,
                CASE WHEN {kept} AND typeof({start}) = 'integer' THEN {start} END AS start
            FROM {rows.table}
            WHERE {rows.where.sql} AND {batch.condition}
        )
        GROUP BY {keys}, block
        """
    )
