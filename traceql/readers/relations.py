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
from traceql.readers.nester import Nester
from traceql.readers.scratch import Scratch, scratch_database
from traceql.readers.tables import JSON, NAME, SCHEMAS, TraceTables
from traceql.readers.timeline import complete_timeline
from traceql.readers.total_time import absolute_sum, require_sum_fits
from traceql.readers.track_nesting import NONE, SLICE
from traceql.readers.tracks import Track
from traceql.readers.unpacked import ANEW
from traceql.util.text import identifier

Int64s = npt.NDArray[np.int64]
Prepare = Callable[[Path, Scratch], None]  # opens a file and leaves the relations
PART_ROWS = 250_000  # about, of the events of a rank
_FLOWS_OF_PART = 1_000_000
_SAMPLED = 32  # every 32nd row is sampled to find where parts begin
_MEMORY_BYTES = 1 << 30
_FARTHEST_NS = 2**62  # 146 years
_EVENTS = ("slice", "instant", "counter")
_DESCRIBED = {"cat": NAME, "name": NAME, "args": JSON}
_DUCKDB_TYPES = {
    **{pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"},
    **{NAME: "VARCHAR", JSON: "VARCHAR", pa.large_string(): "VARCHAR"},
    pa.list_(pa.int32()): "INTEGER[]",
}


def _columns(*tables: str, without: str = "", **more: str) -> dict[str, str]:
    """The columns of a relation and their types."""
    own = {field.name: _DUCKDB_TYPES[field.type] for table in tables for field in SCHEMAS[table]}
    return {name: type_ for name, type_ in (own | more).items() if name not in without.split()}


_NAMED = {"key": "BIGINT", "name_id": "BIGINT"}
_RELATIONS = {
    "slice": _columns(
        *("slice", "activity"),
        without="index pid tid parent depth",
        **_NAMED,
        is_activity="BOOLEAN",
    ),
    "instant": _columns("instant", without="pid tid", **_NAMED),
    "counter": _columns("counter", key="BIGINT"),
    "track": _columns("track", slice_pid="BIGINT", slice_tid="BIGINT"),
    "count": _columns("count"),
    "load_check": _columns("load_check"),
}


def read_relations(
    path: Path,
    prepare: Prepare,
    *,
    folder: Path | None = None,
    memory_bytes: int = _MEMORY_BYTES,
    threads: int = 1,
) -> Iterator[TraceTables]:
    """The tables of each rank of a file.

    Args:
        prepare: leaves the relations.
        folder: where to write the scratch database.

    Raises:
        TraceCorrupt: the file is damaged, or another one.
    """
    with _prepared(path, prepare, folder, memory_bytes, threads) as scratch:
        for rank, metadata in _ranks(scratch):
            yield from Rank(scratch, rank, metadata).parts()


def feed_relations(
    path: Path, prepare: Prepare, base_ns: int, metadata: Mapping[str, Any]
) -> Iterator[bytes]:
    """One rank as JSON that the trace processor accepts, with times relative to `base_ns`.

    Args:
        metadata: those of the rank; an older version may have stored fewer.
    """
    with _prepared(path, prepare, None, _MEMORY_BYTES, 1) as scratch:
        found = next(
            Rank(scratch, number, own)
            for number, own in _ranks(scratch)
            if all(metadata[key] == own[key] for key in own.keys() & metadata.keys())
        )
        yield from found.feed(base_ns)


@contextmanager
def _prepared(
    path: Path, prepare: Prepare, folder: Path | None, memory_bytes: int, threads: int
) -> Iterator[Scratch]:
    """The relations of a file; errors name it."""
    try:
        with scratch_database(folder, memory_bytes, threads) as scratch:
            prepare(path, scratch)
            yield scratch
    except (TraceCorrupt, LossyLoad) as error:
        raise type(error)(f"{path}: {error}") from None
    except duckdb.OutOfRangeException:
        raise TraceCorrupt(f"{path}: a time or a size does not fit 64 bits; {ANEW}") from None
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise TraceqlError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


def _ranks(scratch: Scratch) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and the metadata of each rank."""
    for rank, text in scratch.rows("SELECT rank, metadata FROM rank ORDER BY rank"):
        known = json.loads(text or "{}").items()
        yield rank, {key: value for key, value in known if value is not None}


class Rank:
    """The relations of one rank."""

    def __init__(self, scratch: Scratch, rank: int, metadata: Mapping[str, Any]) -> None:
        self._scratch, self._rank, self._metadata = scratch, rank, metadata
        self._nester, self._next, self._total_ns = Nester(), 0, 0.0
        scratch.con.execute("CREATE OR REPLACE TEMP TABLE slice_index (key BIGINT, index BIGINT)")

    def parts(self) -> Iterator[TraceTables]:
        """The tables in parts: the last one has what is of the whole rank."""
        empty = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        for begin, end in self._windows():
            tables = empty | self._events(begin, end)
            if end is not None:
                yield TraceTables(tables, self._metadata, continues=True)
        for flows in self._flows():
            if tables["flow"].num_rows:
                yield TraceTables(tables, self._metadata, continues=True)
                tables = dict(empty)
            tables["flow"] = flows
        tables["track"] = conforming(self._tracks, "track")
        tables["count"] = conforming(self._read("count", order="ORDER BY phase, cat"), "count")
        tables["load_check"] = conforming(self._read("load_check"), "load_check")
        yield TraceTables(tables, self._metadata)

    def feed(self, base_ns: int) -> Iterator[bytes]:
        """All slices for the trace processor."""
        rows = self._slices(None, None)
        timeline = complete_timeline(*(_int64(rows[name]) for name in ("ts", "dur", "track")))
        described = feed.Described(*(_column(rows[n], t) for n, t in _DESCRIBED.items()))
        names = [field.name for field in fields(Track)]
        tracks = [Track(**row) for row in self._tracks.select(names).to_pylist()]
        ids, to_fed = feed.dense_ids(tracks, timeline), feed.FedTimes(base_ns)
        yield from feed.described_feed(timeline, described, NO_FLOWS, tracks, ids, to_fed)

    @cached_property
    def _known(self) -> Mapping[str, set[str]]:
        """The columns of each relation that is there."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for relation, column in self._scratch.rows(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal"
        ):
            found[relation].add(column)
        return found

    @cached_property
    def _tracks(self) -> pa.Table:
        return self._read("track", order="ORDER BY track")

    @cached_property
    def _texts(self) -> tuple[Int64s, pa.Array]:
        """The ids of all texts, sorted, and the texts."""
        if "text" not in self._known:
            return np.empty(0, np.int64), pa.array([], pa.large_string())
        found = self._scratch.arrow("SELECT id, value FROM text ORDER BY id")
        return _int64(found["id"]), _flat(found["value"])

    def _windows(self) -> Iterator[tuple[int | None, int | None]]:
        """Begin and end of each part, ns; None is without a limit."""
        there = [name for name in _EVENTS if name in self._known]
        each = [f"SELECT ts, key FROM {name} WHERE rank = {self._rank}" for name in there]
        events = f"({' UNION ALL '.join(each)})"
        ((rows,),) = self._scratch.rows(f"SELECT COUNT(*) FROM {events}")
        count, borders = -(-rows // PART_ROWS), []
        if count > 1:
            shares = [number / count for number in range(1, count)]
            sampled = min(_SAMPLED, PART_ROWS)
            sample = f"FROM {events} WHERE key % {sampled} = 0"
            ((found,),) = self._scratch.rows(f"SELECT quantile_disc(ts, {shares}) {sample}")
            borders = sorted(set(found or ()))
        return pairwise([None, *borders, None])

    def _read(
        self, relation: str, begin: int | None = None, end: int | None = None, *, order: str = ""
    ) -> pa.Table:
        """The rows of a relation that begin in a window, with all columns that it may have."""
        known = self._known.get(relation, set())
        columns = ", ".join(
            f"CAST({identifier(name) if name in known else 'NULL'} AS {kind}) AS {identifier(name)}"
            for name, kind in _RELATIONS[relation].items()
        )
        limits = "" if begin is None else f" AND ts >= {begin}"
        limits += "" if end is None else f" AND ts < {end}"
        source = f"FROM {relation} WHERE rank = {self._rank}{limits}" if known else "WHERE FALSE"
        found = self._scratch.arrow(f"SELECT {columns} {source} {order}")
        if "ts" in known:
            _require_times(found["ts"])
        return found

    def _events(self, begin: int | None, end: int | None) -> dict[str, pa.Table]:
        """The tables of the events of a window."""
        slices = self._slices(begin, end)
        instants, counters = (
            self._read(name, begin, end, order="ORDER BY key") for name in ("instant", "counter")
        )
        return {
            "slice": conforming(self._placed(self._nested(slices)), "slice"),
            "activity": conforming(slices.filter(slices["is_activity"]), "activity"),
            "instant": conforming(self._placed(self._named(instants)), "instant"),
            "counter": conforming(counters, "counter"),
        }

    def _slices(self, begin: int | None, end: int | None) -> pa.Table:
        """The slices of a window, with their names, in the order of their indices."""
        rows = self._read("slice", begin, end)
        dur = _int64(rows["dur"])
        self._total_ns += absolute_sum(dur)
        require_sum_fits(self._total_ns)
        order = pa.array(_order(_int64(rows["ts"]), dur, _int64(rows["key"])))
        columns = [_flat(column).take(order) for column in rows.columns]
        rows = self._named(pa.table(columns, names=rows.column_names))
        index = pa.array(np.arange(self._next, self._next + len(order)))
        self._next += len(order)
        return rows.append_column("index", index)

    def _nested(self, slices: pa.Table) -> pa.Table:
        """The slices of a window with their parents and depths."""
        if "flow_end" in self._known:
            ends = slices.select(["key", "index"])
            self._scratch.insert("slice_index", ends)
        ts, dur, track, index = (_int64(slices[n]) for n in ("ts", "dur", "track", "index"))
        order = np.argsort(track, kind="stable")
        found = self._nester.add(
            track[order],
            ts[order],
            np.maximum(dur, 0)[order],
            index[order],
            np.full(len(order), SLICE),
        )
        parent, depth = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        parent[order], depth[order] = found.parent, found.depth
        parents = pa.array(parent, mask=parent == NONE)
        return slices.append_column("parent", parents).append_column("depth", pa.array(depth))

    def _placed(self, rows: pa.Table) -> pa.Table:
        """With the process and the thread of the track of each row."""
        for name in ("pid", "tid"):
            values = _flat(self._tracks[f"slice_{name}"]).take(_flat(rows["track"]))
            rows = rows.append_column(name, values)
        return rows

    def _named(self, rows: pa.Table) -> pa.Table:
        """With the text of `name_id` where `name` has none."""
        given, codes = _flat(rows["name"]), _flat(rows["name_id"]).dictionary_encode()
        ids, texts = self._texts
        wanted = _int64(codes.dictionary)
        place = np.searchsorted(ids, wanted)
        is_known = np.append(ids, 0)[place] == wanted
        is_known &= place < len(ids)
        known = texts.take(pa.array(place, mask=~is_known))
        name = _coded_texts(codes.indices, known)
        if given.null_count < len(given):
            by_id = name.dictionary.take(name.indices)
            name = pc.coalesce(given, by_id).dictionary_encode()
        return rows.set_column(rows.schema.get_field_index("name"), "name", name)

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


def _order(ts: Int64s, dur: Int64s, key: Int64s) -> Int64s:
    """Positions in the order of time; what encloses others comes before them, then by key."""
    order = np.argsort(ts, kind="stable")
    is_tied = np.diff(ts[order]) == 0
    tied = np.flatnonzero(np.append(is_tied, False) | np.insert(is_tied, 0, False))
    among = order[tied]
    order[tied] = among[np.lexsort((key[among], -dur[among], ts[among]))]
    return order


def _require_times(ts: pa.ChunkedArray) -> None:
    """Raises TraceCorrupt for times that would not fit 64 bits after a shift."""
    if ts.null_count:
        raise TraceCorrupt(f"an event has no time; {ANEW}")
    values = _int64(ts)
    far = values[(values < -_FARTHEST_NS) | (values > _FARTHEST_NS)]
    if len(far):
        raise TraceCorrupt(
            f"an event begins {abs(int(far[0])):,} ns from the start of the session, which is no "
            f"time; {ANEW}"
        )


def conforming(rows: pa.Table, table: str) -> pa.Table:
    """The columns of a table of the contract, of the types in its schema."""
    schema = SCHEMAS[table]
    return pa.table([_column(rows[of.name], of.type) for of in schema], schema=schema)


def _column(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    if type_ == NAME:
        return _coded(column)
    return _json(column) if type_ == JSON else _flat(column).cast(type_)


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    array = _flat(column)
    return (array if pa.types.is_dictionary(array.type) else array.dictionary_encode()).cast(NAME)


def _coded_texts(codes: pa.Array, texts: pa.Array) -> pa.DictionaryArray:
    """The texts of codes, each of which is in the dictionary once, and no NULL."""
    if texts.null_count or pc.count_distinct(texts).as_py() < len(texts):
        return texts.take(codes).dictionary_encode()
    return pa.DictionaryArray.from_arrays(codes, texts)


def _json(column: pa.ChunkedArray) -> pa.Array:
    return pa.ExtensionArray.from_storage(JSON, _flat(column))


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _int64(column: pa.ChunkedArray | pa.Array) -> Int64s:
    values: Int64s = column.to_numpy()
    return values.astype(np.int64, copy=False)
