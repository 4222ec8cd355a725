"""Parts of the time of each device, so that many activities need not be in memory at once."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise

import duckdb

_ROWS = 250_000  # of a part, about
_SAMPLED = 1024  # one row in this many is examined to find where parts begin

_SPANS = """
    SELECT rank, device, COUNT(*), MIN(ts), MAX(ts + GREATEST(dur, 0)), MAX(dur)
    FROM {table}
    WHERE ts IS NOT NULL
    GROUP BY rank, device
    ORDER BY rank, device
"""
_OF_DEVICE = "FROM {table} WHERE rank = $rank AND device = $device"


@dataclass(frozen=True)
class Part:
    """A part of the time of a device of a rank.

    Attributes:
        begin: its start, ns.
        end: its end, ns, which is not in it.
        since: what began before this time, ns, has ended at `begin`.
    """

    rank: int
    device: int
    begin: int
    end: int
    since: int

    @property
    def parameters(self) -> dict[str, int]:
        """The parameters of a statement that reads the rows of a part."""
        return asdict(self)


def parts_of_time(con: duckdb.DuckDBPyConnection, table: str) -> Iterator[Part]:
    """The time of all kernels of each rank, device by device, in parts that begin with a kernel.

    Together, the parts of a device cover the time from its first start to its last end.

    Args:
        table: a table of kernels, with columns id, rank, device, ts and dur.
    """
    spans = con.execute(_SPANS.format(table=table)).fetchall()
    for rank, device, rows, first, last, longest in spans:
        place = {"rank": rank, "device": device}
        inner = starts_of_parts(con, _OF_DEVICE.format(table=table), place, rows)
        borders = [first, *(ts for ts in inner if first < ts < last), last]
        for begin, end in pairwise(borders):
            yield Part(rank, device, begin, end, since=max(first, begin - max(longest, 0)))


def starts_of_parts(
    con: duckdb.DuckDBPyConnection, source: str, parameters: Mapping[str, int], rows: int
) -> list[int]:
    """Where parts of about 250,000 rows begin, ns, sorted; none if there are no more than that.

    Args:
        source: FROM and WHERE of the rows, which have columns id and ts.
        rows: their number.
    """
    if rows <= _ROWS:
        return []
    asked = f"SELECT DISTINCT ts {source} AND id % {_SAMPLED} = 0 ORDER BY ts"
    starts = [ts for (ts,) in con.execute(asked, parameters).fetchall()]
    return starts[:: max(1, _ROWS * len(starts) // rows)]
