"""SELECTs of the rows of a source table that begin in a window, or are cut by the start of one.

Windows may be many, and rows tens of millions. So each window is listed in cells of time, and a row
is compared with the windows of its cell alone, by a hash join that nothing has to be sorted for.
"""

from dataclasses import dataclass

import duckdb

_CELLS = 50_000  # of all windows together, about
_SHORT_NS = 10_000_000  # rows that last longer are few, and compared with all windows of their rank
_BOUNDS = "SELECT MIN(ts), MAX(ts + dur), SUM(dur) FROM excerpt_window"
_CELL_TABLE = """
    CREATE TEMP TABLE cell AS
    SELECT
        number,
        rank,
        ts AS from_ts,
        ts + dur AS to_ts,
        UNNEST(range(ts // $size, (ts + dur - 1) // $size + 1)) AS cell
    FROM excerpt_window
"""
_EDGE_TABLE = """
    CREATE TEMP TABLE edge AS
    SELECT
        number,
        rank,
        ts AS from_ts,
        ts + dur AS to_ts,
        UNNEST([ts // $size - 1, ts // $size]) AS cell
    FROM excerpt_window
"""


@dataclass(frozen=True)
class Overlap:
    """How to find rows by the windows of the table excerpt_window.

    Attributes:
        cell_ns: length of the cells of windows.
        first_ts: where the first window begins.
        last_ts: where the last one ends.
    """

    cell_ns: int
    first_ts: int
    last_ts: int

    def begun(self, table: str) -> str:
        """The rows that begin in a window, with its number, from_ts and to_ts."""
        return f"""
            SELECT each.*, cell.number, cell.from_ts, cell.to_ts
            FROM {table} AS each
            INNER JOIN cell
                ON each.rank = cell.rank
                AND each.ts // {self.cell_ns} = cell.cell
                AND each.ts >= cell.from_ts
                AND each.ts < cell.to_ts
            WHERE each.ts >= {self.first_ts} AND each.ts < {self.last_ts}
        """

    def open(self, table: str) -> str:
        """The rows that began before the start of a window and last beyond it, for each window."""
        return f"""
            SELECT each.*, edge.number, edge.from_ts, edge.to_ts
            FROM {table} AS each
            INNER JOIN edge
                ON each.rank = edge.rank
                AND each.ts // {_SHORT_NS} = edge.cell
                AND each.ts < edge.from_ts
                AND each.ts + each.dur > edge.from_ts
            WHERE each.dur <= {_SHORT_NS} AND each.ts >= {self.first_ts - _SHORT_NS}
                AND each.ts < {self.last_ts}
            UNION ALL
            SELECT each.*, edge.number, edge.ts, edge.ts + edge.dur
            FROM {table} AS each
            INNER JOIN excerpt_window AS edge
                ON each.rank = edge.rank AND each.ts < edge.ts AND each.ts + each.dur > edge.ts
            WHERE each.dur > {_SHORT_NS}
        """

    def clipped(self, table: str) -> str:
        """What the rows have in windows: ts and dur cut at their edges."""
        return f"""
            SELECT * EXCLUDE (number, from_ts, to_ts) REPLACE (
                GREATEST(ts, from_ts) AS ts,
                LEAST(ts + dur, to_ts) - GREATEST(ts, from_ts) AS dur
            )
            FROM ({self.begun(table)} UNION ALL {self.open(table)})
        """


def overlap_with_windows(con: duckdb.DuckDBPyConnection) -> Overlap:
    """Lists the windows of excerpt_window in temporary tables that the SELECTs join."""
    ((first, last, total),) = con.execute(_BOUNDS).fetchall()
    cell_ns = max(1000, int(total) // _CELLS)
    con.execute(_CELL_TABLE, {"size": cell_ns})
    con.execute(_EDGE_TABLE, {"size": _SHORT_NS})
    return Overlap(cell_ns, first, last)
