"""From relations in a scratch database to the tables of the contract, rank by rank and in parts.

What a profiler's SQL leaves in the database:

    rank      rank, metadata (JSON)
    text      id, value: names that slices and instants have by number
    track     rank, track, pid, tid, process_name, thread_name, process_labels, process_sort_index,
              thread_sort_index; slice_pid and slice_tid: what its slices and instants have
    slice     rank, key, cat, name_id, name, ts, dur, track, external_id, correlation, args,
              is_activity, device, stream, bytes, grid, block, graph_node_id
    flow_end  rank, flow, is_start, key of the slice
    instant   rank, key, cat, name_id, name, ts, track, args
    counter   rank, key, name, unit, ts, value, track
    count     rank, phase, cat, events, dur
    load_check  rank, check_name, value, total, ok, note

Relations that are absent are empty, and columns that are absent are NULL. `key` is a number that
no other row of the rank has. Slices are in the order of time, those that enclose others first,
then by key; instants and counters are in the order of their keys. An arrow goes from the first
slice that starts a flow to each other slice of it.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import LossyLoad, TraceCorrupt, TraceqlError
from traceql.readers import feed
from traceql.readers.flows import NO_FLOWS
from traceql.readers.nester import NONE, SLICE, Nester
from traceql.readers.redaction import Redaction
from traceql.readers.scratch import Scratch, scratch_database
from traceql.readers.tables import JSON, NAME, SCHEMAS, TraceTables
from traceql.readers.timeline import absolute_sum, complete_timeline, require_sum_fits
from traceql.readers.tracks import Track
from traceql.readers.unpacked import REMAKE
from traceql.util.text import identifier

Int64s = npt.NDArray[np.int64]
Columns = dict[str, pa.Array]
Prepare = Callable[[Path, Scratch], None]  # opens a file and leaves the relations
PART_ROWS = 250_000  # about, of the events of a rank
_FLOWS_OF_PART = 1_000_000
_SAMPLED = 32  # every 32nd row is sampled to find where parts begin
_FARTHEST_NS = 2**62  # 146 years
_DUCKDB_TYPES = {
    **{pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"},
    **{NAME: "VARCHAR", JSON: "VARCHAR", pa.large_string(): "VARCHAR"},
    pa.list_(pa.int32()): "INTEGER[]",
}
# Beside the columns of the contract; and the order of rows.
_NUMBERS = {
    "slice": ("key", "name_id"),
    "instant": ("key", "name_id"),
    "counter": ("key",),
    "track": ("slice_pid", "slice_tid"),
}
_ORDER = {"instant": "key", "counter": "key, name", "track": "track", "count": "phase, cat"}


def read_relations(
    path: Path,
    prepare: Prepare,
    *,
    folder: Path | None = None,
    memory_bytes: int = 1 << 30,
    threads: int = 1,
) -> Iterator[TraceTables]:
    """The tables of each rank of a file.

    Args:
        prepare: leaves the relations.
        folder: where to write the scratch database.

    Raises:
        TraceCorrupt: the file is damaged, or another one.
    """
    with _ranks(path, prepare, folder, memory_bytes, threads) as ranks:
        for rank in ranks:
            yield from rank.parts()


def feed_relations(
    path: Path, prepare: Prepare, base_ns: int, metadata: Mapping[str, Any]
) -> Iterator[bytes]:
    """One rank as JSON that the trace processor accepts, with times relative to `base_ns`.

    Args:
        metadata: those of the rank; an older version may have stored fewer.
    """
    with _ranks(path, prepare, None, 1 << 30, 1) as ranks:
        for rank in ranks:
            known = Redaction().shown(rank.metadata)
            if all(metadata[key] == known[key] for key in known.keys() & metadata.keys()):
                yield from rank.feed(base_ns)
                return


@contextmanager
def _ranks(
    path: Path, prepare: Prepare, folder: Path | None, memory_bytes: int, threads: int
) -> Iterator[Iterator["Rank"]]:
    """The ranks of a file; errors name it."""
    try:
        with scratch_database(folder, memory_bytes, threads) as scratch:
            prepare(path, scratch)
            found = scratch.rows("SELECT rank, metadata FROM rank ORDER BY rank")
            yield (Rank(scratch, *each) for each in found)
    except (TraceCorrupt, LossyLoad) as error:
        raise type(error)(f"{path}: {error}") from None
    except duckdb.OutOfRangeException:
        raise TraceCorrupt(f"{path}: a time or a size does not fit 64 bits; {REMAKE}") from None
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise TraceqlError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


class Rank:
    """The relations of one rank."""

    def __init__(self, scratch: Scratch, rank: int, metadata: str | None) -> None:
        self._scratch, self._rank = scratch, rank
        known = json.loads(metadata or "{}").items()
        self.metadata = {key: value for key, value in known if value is not None}
        self._nester, self._next, self._total_ns = Nester(), 0, 0.0
        scratch.con.execute("CREATE OR REPLACE TEMP TABLE slice_index (key BIGINT, index BIGINT)")

    def parts(self) -> Iterator[TraceTables]:
        """The tables in parts: the last one has what is of the whole rank."""
        empty = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        for begin, end in self._windows():
            tables = empty | self._events(begin, end)
            if end is not None:
                yield TraceTables(tables, self.metadata, continues=True)
        for flows in self._flows():
            if tables["flow"].num_rows:
                yield TraceTables(tables, self.metadata, continues=True)
                tables = dict(empty)
            tables["flow"] = flows
        whole = ("track", "count", "load_check")
        tables |= {name: conforming(self._read(name), name) for name in whole}
        yield TraceTables(tables, self.metadata)

    def feed(self, base_ns: int) -> Iterator[bytes]:
        """All slices for the trace processor."""
        rows, tracks = self._slices(None, None), pa.table(self._tracks)
        timeline = complete_timeline(*(_int64(rows[name]) for name in ("ts", "dur", "track")))
        columns = (_column(rows[n], t) for n, t in (("cat", NAME), ("name", NAME), ("args", JSON)))
        named = tracks.select([field.name for field in fields(Track)]).to_pylist()
        listed = [Track(**row) for row in named]
        ids, to_fed = feed.dense_ids(listed, timeline), feed.FedTimes(base_ns)
        described = feed.Described(*columns)
        yield from feed.described_feed(timeline, described, NO_FLOWS, listed, ids, to_fed)

    @cached_property
    def _known(self) -> Mapping[str, set[str]]:
        """The columns of each relation that is there."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        sql = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal"
        for relation, column in self._scratch.rows(sql):
            found[relation].add(column)
        return found

    @cached_property
    def _tracks(self) -> Columns:
        return self._read("track")

    @cached_property
    def _texts(self) -> tuple[pa.Array, pa.Array]:
        """The ids of all texts, and the texts."""
        if "text" not in self._known:
            return pa.array([], pa.int64()), pa.array([], pa.large_string())
        found = self._scratch.arrow("SELECT id, value FROM text")
        return found["id"].combine_chunks(), found["value"].combine_chunks()

    def _windows(self) -> Iterator[tuple[int | None, int | None]]:
        """Begin and end of each part, ns; None is without a limit."""
        there = [name for name in ("slice", "instant", "counter") if name in self._known]
        each = [f"SELECT ts, key FROM {name} WHERE rank = {self._rank}" for name in there]
        events = f"FROM ({' UNION ALL '.join(each)})"
        ((rows,),) = self._scratch.rows(f"SELECT COUNT(*) {events}")
        count, borders = -(-rows // PART_ROWS), []
        if count > 1:
            shares = [number / count for number in range(1, count)]
            sample = f"{events} WHERE key % {min(_SAMPLED, PART_ROWS)} = 0"
            ((found,),) = self._scratch.rows(f"SELECT quantile_disc(ts, {shares}) {sample}")
            borders = sorted(set(found or ()))
        return pairwise([None, *borders, None])

    def _read(self, relation: str, begin: int | None = None, end: int | None = None) -> Columns:
        """The rows of a relation that begin in a window, with all columns that it may have."""
        known = self._known.get(relation, set())
        types = {field.name: _DUCKDB_TYPES[field.type] for field in SCHEMAS[relation]}
        types |= dict.fromkeys(_NUMBERS.get(relation, ()), "BIGINT")
        if relation == "slice":
            types |= {field.name: _DUCKDB_TYPES[field.type] for field in SCHEMAS["activity"]}
            types["is_activity"] = "BOOLEAN"
        columns = ", ".join(
            f"CAST({identifier(name) if name in known else 'NULL'} AS {kind}) AS {identifier(name)}"
            for name, kind in types.items()
        )
        limits = "" if begin is None else f" AND ts >= {begin}"
        limits += "" if end is None else f" AND ts < {end}"
        source = f"FROM {relation} WHERE rank = {self._rank}{limits}" if known else "WHERE FALSE"
        order = f"ORDER BY {_ORDER[relation]}" if relation in _ORDER else ""
        found = self._scratch.arrow(f"SELECT {columns} {source} {order}")
        rows = {name: _whole(found[name]) for name in types}
        if "ts" in known:
            _require_times(rows["ts"])
        return rows

    def _events(self, begin: int | None, end: int | None) -> dict[str, pa.Table]:
        """The tables of the events of a window."""
        slices = self._nested(self._slices(begin, end))
        instants = self._named(self._read("instant", begin, end))
        for events in (slices, instants):
            for name in ("pid", "tid"):
                events[name] = self._tracks[f"slice_{name}"].take(events["track"])
        counters = self._read("counter", begin, end)
        rows = {"slice": slices, "activity": slices, "instant": instants, "counter": counters}
        tables = {name: conforming(columns, name) for name, columns in rows.items()}
        return tables | {"activity": tables["activity"].filter(slices["is_activity"])}

    def _slices(self, begin: int | None, end: int | None) -> Columns:
        """The slices of a window in the order of time; those that enclose others come first."""
        rows = self._read("slice", begin, end)
        ts, dur, key = (_int64(rows[name]) for name in ("ts", "dur", "key"))
        self._total_ns += absolute_sum(dur)
        require_sum_fits(self._total_ns)
        order = np.argsort(ts, kind="stable")
        is_tied = np.diff(ts[order]) == 0
        tied = np.flatnonzero(np.append(is_tied, False) | np.append(False, is_tied))
        among = order[tied]
        order[tied] = among[np.lexsort((key[among], -dur[among], ts[among]))]
        place = pa.array(order)
        rows = self._named({name: column.take(place) for name, column in rows.items()})
        rows["index"] = pa.array(np.arange(self._next, self._next + len(order)))
        self._next += len(order)
        return rows

    def _nested(self, rows: Columns) -> Columns:
        """The slices of a window with their parents and depths."""
        if "flow_end" in self._known:
            ends = pa.table({name: rows[name] for name in ("key", "index")})
            self._scratch.insert("slice_index", ends)
        track = _int64(rows["track"])
        order = np.argsort(track, kind="stable")
        ts, dur, index = (_int64(rows[name])[order] for name in ("ts", "dur", "index"))
        kind = np.full(len(order), SLICE)
        found = self._nester.add(track[order], ts, np.maximum(dur, 0), index, kind)
        parent, depth = np.empty((2, len(order)), np.int64)
        parent[order], depth[order] = found.parent, found.depth
        return rows | {"parent": pa.array(parent, mask=parent == NONE), "depth": pa.array(depth)}

    def _named(self, rows: Columns) -> Columns:
        """With the text of `name_id` where `name` has none."""
        (ids, texts), codes = self._texts, rows["name_id"].dictionary_encode()
        known = texts.take(pc.index_in(codes.dictionary, ids)).dictionary_encode()
        name = pa.DictionaryArray.from_arrays(known.indices.take(codes.indices), known.dictionary)
        if rows["name"].null_count < len(rows["name"]):
            name = pc.coalesce(rows["name"], name.cast(pa.large_string())).dictionary_encode()
        return rows | {"name": name}

    def _flows(self) -> Iterator[pa.Table]:
        """The arrows between slices, in the order of their ends."""
        if "flow_end" not in self._known:
            return
        found = self._scratch.con.sql(
            f"""
            WITH ends AS NOT MATERIALIZED (
                SELECT flow, is_start, index
                FROM flow_end
                JOIN slice_index USING (key)
                WHERE rank = {self._rank}
            ),

            starts AS (
                SELECT flow, MIN(index) AS slice_out
                FROM ends
                WHERE is_start
                GROUP BY flow
            )

            SELECT slice_out, index AS slice_in
            FROM ends
            JOIN starts USING (flow)
            WHERE NOT is_start
            ORDER BY slice_in, slice_out
            """
        )
        for batch in found.to_arrow_reader(_FLOWS_OF_PART):
            yield conforming(pa.Table.from_batches([batch]), "flow")


def _require_times(ts: pa.Array) -> None:
    """Raises TraceCorrupt for times that would not fit 64 bits after a shift."""
    if ts.null_count:
        raise TraceCorrupt(f"an event has no time; {REMAKE}")
    values = _int64(ts)
    far = values[(values < -_FARTHEST_NS) | (values > _FARTHEST_NS)]
    if len(far):
        raise TraceCorrupt(
            f"an event begins {abs(int(far[0])):,} ns from the start of the session, which is no "
            f"time; {REMAKE}"
        )


def conforming(rows: pa.Table | Columns, table: str) -> pa.Table:
    """The columns of a table of the contract, of the types in its schema."""
    schema = SCHEMAS[table]
    return pa.table([_column(_whole(rows[of.name]), of.type) for of in schema], schema=schema)


def _column(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if type_ == JSON:
        return pa.ExtensionArray.from_storage(JSON, column)
    if type_ == NAME and not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return column.cast(type_)


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _int64(column: pa.Array) -> Int64s:
    values: Int64s = column.to_numpy(zero_copy_only=False)
    return values.astype(np.int64, copy=False)
