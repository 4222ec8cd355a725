"""The recordings of a load, new or in the database before, and what their events show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from traceql.database.loading.reading import FileRead
from traceql.database.loading.run_directory import RankEntry, RunDirectory
from traceql.database.loading.time_base import Extent
from traceql.readers.dialects.facts import FileFacts
from traceql.readers.dialects.registry import loaded_facts

_LAUNCHES = """
    SELECT EXISTS (
        FROM slices
        WHERE regexp_matches(name, 'Launch(Cooperative)?Kernel|GraphLaunch|MemcpyAsync')
    )
"""
_DEVICES = "SELECT DISTINCT COALESCE(device, pid) FROM activities INNER JOIN slices USING (id)"
# Annotations on a stream have the device as their process.
_PROCESS = """
    SELECT pid
    FROM slices
    ANTI JOIN activities USING (id)
    WHERE pid > 0 AND COALESCE(cat, '') NOT ILIKE 'gpu%'
    GROUP BY pid
    ORDER BY COUNT(*) DESC, pid
    LIMIT 1
"""
_KERNELS = """
    SELECT DISTINCT name
    FROM activities
    INNER JOIN slices USING (id)
    WHERE NOT starts_with(lower(name), 'mem')
"""
_COLUMNS = {"slice": ["index", "cat", "name", "pid"], "activity": ["index", "device"]}
_OF_FILE = """
    WITH slices AS (SELECT index AS id, cat, name, pid FROM file_slice),
    activities AS (SELECT index AS id, device FROM file_activity)
"""
_OF_RANK = """
    WITH slices AS (SELECT id, cat, name, pid FROM slice WHERE rank = $rank),
    activities AS (SELECT id, device FROM activity SEMI JOIN slices USING (id))
"""


class Events:
    """What the events of a recording show, computed once, on first use.

    Args:
        of: a new file, or the rank in the database.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, of: FileRead | int) -> None:
        self._con = con
        self._of = of

    @cached_property
    def use_gpu(self) -> bool:
        """Whether a GPU ran something, or the host launched something, recorded or not."""
        if isinstance(self._of, FileRead) and self._of.rows("activity"):
            return True
        return bool(self.devices) or bool(self._rows(_LAUNCHES)[0][0])

    @cached_property
    def devices(self) -> frozenset[int]:
        """The numbers of the devices that ran something."""
        return frozenset(device for (device,) in self._rows(_DEVICES) if device is not None)

    @cached_property
    def process(self) -> int | None:
        """The process with most events on the host; None if there is none."""
        return next((pid for (pid,) in self._rows(_PROCESS)), None)

    @cached_property
    def kernels(self) -> frozenset[str]:
        """The names of what the devices ran, but for copies and memory sets."""
        return frozenset(name for (name,) in self._rows(_KERNELS))

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        if not isinstance(self._of, FileRead):
            return self._con.execute(_OF_RANK + sql, {"rank": self._of}).fetchall()
        for table, columns in _COLUMNS.items():
            parts = [part.select(columns) for _, part in self._of.parts(table)]
            self._con.register(f"file_{table}", pa.concat_tables(parts))
        found = self._con.execute(_OF_FILE + sql).fetchall()
        for table in _COLUMNS:
            self._con.unregister(f"file_{table}")
        return found


@dataclass(frozen=True)
class Recording:
    """A recording, which is of a rank or of a host process.

    Attributes:
        extent: the first and last time of its events.
        entry: what run.json states of its rank.
        world_size: the number of ranks that run.json states.
        is_loaded: whether it is in the database.
        rank: its rank there; None for a host process.
        shift_ns: what was added to its times for the run's time, ns, if it is in the database.
    """

    path: Path
    facts: FileFacts
    events: Events
    extent: Extent
    entry: RankEntry | None = None
    world_size: int | None = None
    is_loaded: bool = False
    rank: int | None = None
    shift_ns: int = 0

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """The first and last time of its events by its clock; None without events."""
        return None if self.extent.is_empty else self.extent.span_ns


def new_recordings(
    con: duckdb.DuckDBPyConnection,
    files: Sequence[FileRead],
    runs: Mapping[Path, RunDirectory],
) -> list[Recording]:
    """The recordings of new files, in their order.

    Args:
        runs: the run directory of each trace that is in one.
    """
    return [
        Recording(
            file.path,
            file.facts,
            Events(con, file),
            Extent(file.first_ts, file.last_ts, file.facts.base_time_ns),
            run.rank_of(file.path, file.facts.process) if run else None,
            run.world_size if run else None,
        )
        for file in files
        for run in [runs.get(file.path)]
    ]


RANK_CHECK = "rank of world size"  # the name in load_check
_LOADED = f"""
    WITH extent AS (
        SELECT rank, MIN(ts) AS first_ts, MAX(ts + dur) AS last_ts FROM slice GROUP BY rank
    )
    SELECT
        trace.path, trace.dialect, trace.metadata, trace.rank, trace.world_size,
        trace.tp_rank, trace.pp_rank, trace.dp_rank, trace.ep_rank,
        COALESCE(load_check.note = 'rank from run.json', FALSE) AS is_stated,
        extent.first_ts - trace.file_offset_ns AS first_ts,
        extent.last_ts - trace.file_offset_ns AS last_ts,
        trace.base_time_ns + trace.file_offset_ns AS shift_ns
    FROM trace
    LEFT JOIN load_check
        ON trace.rank = load_check.rank AND load_check.check_name = '{RANK_CHECK}'
    LEFT JOIN extent ON trace.rank = extent.rank
    ORDER BY trace.rank, trace.path
"""


def loaded_recordings(con: duckdb.DuckDBPyConnection) -> list[Recording]:
    """The recordings in the database, in the order of ranks."""
    return [_loaded(con, *row) for row in con.execute(_LOADED).fetchall()]


def _loaded(
    con: duckdb.DuckDBPyConnection,
    path: str,
    dialect: str,
    metadata: str | None,
    rank: int | None,
    world_size: int | None,
    *found: Any,
) -> Recording:
    *places, is_stated, first_ts, last_ts, shift_ns = found
    facts = loaded_facts(dialect, metadata)
    entry = None
    if rank is not None and is_stated:
        tp, pp, dp, ep = places
        entry = RankEntry(rank, tp_rank=tp, pp_rank=pp, dp_rank=dp, ep_rank=ep)
    extent = Extent(0, -1, None)
    if first_ts is not None:
        extent = Extent(first_ts, last_ts, facts.base_time_ns)
    events = Events(con, -1 if rank is None else rank)
    return Recording(
        Path(path), facts, events, extent, entry, world_size if entry else None,
        is_loaded=True, rank=rank, shift_ns=shift_ns - (facts.base_time_ns or 0),
    )  # fmt: skip
