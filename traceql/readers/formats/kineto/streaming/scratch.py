"""Temporary tables, in memory or on disk, and sorting of their rows."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.formats.kineto.times import Int64s
from traceql.readers.track_nesting import END, NONE, SLICE

if TYPE_CHECKING:
    import duckdb


_ROWS = 100_000  # of a sorted batch
_SHARE_OF_TABLES = 0.5  # of the memory; the rest is for columns while they are sorted
Change = Callable[[pa.Table], pa.Table]


class Scratch:
    """The tables of a file while it is read.

    Tables that are sorted later stay in memory if they fit into half of it; others are on disk.

    Args:
        folder: an empty folder for the tables.
        memory_bytes: for tables and for sorting; the rest goes into the folder.

    Attributes:
        is_in_memory: whether the tables that are sorted later are in memory.
    """

    def __init__(self, folder: Path, *, memory_bytes: int) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._parts: defaultdict[str, list[tuple[pa.Table | Path, Change | None]]]
        self._parts = defaultdict(list)
        self._kept_bytes = 0
        self.is_in_memory = True

    @cached_property
    def _con(self) -> "duckdb.DuckDBPyConnection":
        import duckdb  # only for files that do not fit into memory

        return duckdb.connect(
            config={
                "memory_limit": f"{self._memory_bytes}B",
                "temp_directory": str(self._folder / "sorting"),
                "preserve_insertion_order": "false",
            }
        )

    def close(self) -> None:
        if "_con" in self.__dict__:
            self._con.close()

    def folder_for(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        return folder

    @property
    def files(self) -> dict[str, list[Path]]:
        """The files of each table; tables in memory are written first."""
        self._spill()
        return {name: [Path(part) for part, _ in parts] for name, parts in self._parts.items()}

    def append(self, name: str, rows: pa.Table) -> None:
        """Adds a part to a table on disk, which is read in this order."""
        parts = self._parts[name]
        parts.append((self._written(name, len(parts), rows), None))

    def add(self, name: str, rows: pa.Table) -> None:
        """Adds a part to a table that is sorted later."""
        self._kept_bytes += rows.nbytes
        if self.is_in_memory and self._kept_bytes > self._memory_bytes * _SHARE_OF_TABLES:
            self._spill()
        if not self.is_in_memory:
            self.append(name, rows)
            return
        self._parts[name].append((rows, None))

    def _spill(self) -> None:
        """Writes all tables to disk, and all later parts too."""
        self.is_in_memory = False
        for name, parts in self._parts.items():
            for number, (part, change) in enumerate(parts):
                if isinstance(part, pa.Table):
                    parts[number] = self._written(name, number, part), change

    def _written(self, name: str, number: int, rows: pa.Table) -> Path:
        path = self._folder / f"{name}.{number:06}.arrow"
        with pa.ipc.new_file(path, rows.schema) as sink:
            sink.write_table(rows)
        return path

    def adopt(self, files: Mapping[str, list[Path]], changes: Mapping[str, Change]) -> None:
        """Appends files of another process to the tables.

        Args:
            changes: a function for the rows of a table, applied when they are read.
        """
        self._spill()
        for name, paths in files.items():
            self._parts[name] += [(path, changes.get(name)) for path in paths]

    def parts(self, name: str) -> Iterator[pa.Table]:
        """The parts of a table in order, mapped if on disk."""
        for part, change in self._parts[name]:
            yield _opened(part, change)

    def take(self, name: str) -> Iterator[pa.Table]:
        """The same parts; each is removed."""
        parts = self._parts.pop(name, [])
        while parts:
            part, change = parts.pop(0)
            rows = _opened(part, change)
            if isinstance(part, Path):
                part.unlink()
            del part
            yield rows
            del rows

    def rows(self, name: str, schema: pa.Schema) -> pa.Table:
        """Columns of a table, in one chunk."""
        return _one_chunk(self.parts(name), schema)

    def taken(self, name: str, schema: pa.Schema) -> pa.Table:
        """The same rows, which are removed."""
        return _one_chunk(self.take(name), schema)

    def query(
        self, sql: str, schemas: Mapping[str, pa.Schema], **others: pa.Table
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a SELECT.

        Args:
            schemas: the tables of the SELECT and their columns.
            others: small tables in memory.
        """
        for name, schema in schemas.items():
            reader = pa.RecordBatchReader.from_batches(schema, self._batches(name, schema))
            self._con.register(name, reader)
        for name, table in others.items():
            self._con.register(name, table)
        yield from self._con.sql(sql).to_arrow_reader(_ROWS)
        for name in (*schemas, *others):
            self._con.unregister(name)

    def _batches(self, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for part in self.parts(name):
            yield from part.select(schema.names).to_batches()


def _one_chunk(parts: Iterator[pa.Table], schema: pa.Schema) -> pa.Table:
    selected = [part.select(schema.names) for part in parts]
    return pa.concat_tables([schema.empty_table(), *selected]).combine_chunks()


def _opened(part: pa.Table | Path, change: Change | None) -> pa.Table:
    rows = part
    if isinstance(part, Path):
        with pa.memory_map(str(part)) as source:
            rows = pa.ipc.open_file(source).read_all()
    return change(rows) if change else rows


def rows_by_track(span: pa.Table, ends: pa.Table, track_of_place: Int64s) -> list[Int64s]:
    """Track, start, duration, number and kind of slices, and of ends on a track.

    Sorted by track and time; slices before ends, longer slices first.

    Args:
        span: all slices, in the order of the file, with the columns `SPAN`.
        ends: all ends, in the order of the file, with the columns `NUMBERED_END`.
        track_of_place: the track of each place of ends, or -1.
    """
    end_track = track_of_place[ends["place"].to_numpy()]
    ends = ends.filter(pa.array(end_track != NONE))
    slices = [span[name].to_numpy() for name in ("track", "ts", "dur", "number")]
    late = ends["is_late"].to_numpy().astype(np.int64)
    of_ends = [
        end_track[end_track != NONE],
        ends["ts"].to_numpy(),
        np.zeros(len(ends), np.int64),
        ends["number"].to_numpy(),
        END + late,
    ]
    kinds = np.full(len(span), SLICE)
    columns = [np.concatenate(pair) for pair in zip([*slices, kinds], of_ends, strict=True)]
    del span, ends, slices, of_ends, kinds  # otherwise all rows are in memory twice
    track, ts, dur, _, kind = columns
    order = _in_order(np.where(kind == SLICE, -dur, 1), ts, track)
    del track, ts, dur, kind
    return [columns.pop(0)[order] for _ in range(len(columns))]


def _in_order(last: Int64s, *first: Int64s) -> Int64s:
    """`np.lexsort`, but faster if `last` is sorted already, as in most recordings."""
    order = np.lexsort(first)
    same = np.logical_and.reduce([np.diff(column[order]) == 0 for column in first])
    if (same & (np.diff(last[order]) < 0)).any():
        order = np.lexsort((last, *first))
    return order


def rows_by_index(placed: pa.Table) -> pa.Table:
    """The parent and the depth of each slice, in the order of their indexes."""
    index = placed["index"].to_numpy()
    found = {}
    for name in ("parent", "depth"):
        found[name] = np.empty(len(index), np.int64)
        found[name][index] = placed[name].to_numpy()
    return pa.table(found)


def rows_by_flow(ends: pa.Table, bound: pa.Table) -> pa.Table:
    """The ends of flows with their slices, flow by flow, in the order in which they are bound.

    Args:
        ends: all ends, in the order of the file, with the columns `NUMBERED_END`.
        bound: the bound ends, with the columns `BOUND`.
    """
    at_end = bound["end"].to_numpy()
    slice_, slice_ts = np.full(len(ends), NONE), np.zeros(len(ends), np.int64)
    slice_[at_end] = bound["bound"].to_numpy()
    slice_ts[at_end] = bound["bound_ts"].to_numpy()
    at = ends["ts"].to_numpy().copy()
    at[at_end] = bound["bound_at"].to_numpy()
    binds_late = np.zeros(len(ends), bool)
    binds_late[at_end] = bound["binds_late"].to_numpy()
    order = np.lexsort(
        (
            ends["phase"].to_numpy(),
            ~binds_late,
            at,
            _places_in_order(ends["id"].combine_chunks()),
            ends["family"].to_numpy(),
        )
    )
    of_ends = ends.select(["family", "id", "phase", "place", "is_late"]).take(pa.array(order))
    of_slices = {"bound": pa.array(slice_[order]), "bound_ts": pa.array(slice_ts[order])}
    return pa.table(dict(zip(of_ends.column_names, of_ends.columns, strict=True)) | of_slices)


def _places_in_order(values: pa.Array) -> Int64s:
    """Integers in the same order as the values, byte by byte."""
    coded = values.dictionary_encode()
    place = np.empty(len(coded.dictionary), np.int64)
    place[pc.sort_indices(coded.dictionary).to_numpy()] = np.arange(len(place))
    found: Int64s = place[coded.indices.to_numpy()]
    return found
