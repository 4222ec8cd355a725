"""Which layer and role each kernel has by the order of kernels, and what model each rank runs."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import duckdb
import numpy as np
import pyarrow as pa

from traceql.layers.grammar import Grammar, grammars
from traceql.layers.sequence import Int64s, Layers, Stream, layers, roles
from traceql.layers.stages import stages
from traceql.loading.arrow import write_table
from traceql.resources import QUERIES

_MODULE_ROLES = QUERIES / "layers" / "modules.csv"
_KERNEL_LAYER = pa.schema(
    [
        ("id", pa.int64()),
        ("pass", pa.int64()),
        ("layer", pa.int64()),
        ("role", pa.dictionary(pa.int32(), pa.string())),
    ]
)
_RANK_MODEL = pa.schema(
    [
        ("rank", pa.int64()),
        ("family", pa.string()),
        ("layers", pa.int64()),
        ("first_layer", pa.int64()),
        ("stage", pa.int64()),
        ("stages", pa.int64()),
        ("source", pa.string()),
    ]
)
_MODEL_STREAM = pa.schema([("rank", pa.int64()), ("device", pa.int64()), ("stream", pa.int64())])
_MODULE_ROLE = pa.schema(
    [
        ("priority", pa.int64()),
        ("path_pattern", pa.string()),
        ("positions", pa.string()),
        ("symbols", pa.string()),
        ("role", pa.string()),
    ]
)


@dataclass(frozen=True)
class _Place:
    """One stream that writes to a KV cache, with its kernels."""

    rank: int
    device: int
    number: int
    ids: pa.Array
    ts: Int64s
    stream: Stream


@dataclass(frozen=True)
class _Found:
    """One stream with forward passes that a grammar knows."""

    place: _Place
    layers: Layers


def attribute_by_sequence(con: duckdb.DuckDBPyConnection) -> None:
    """Writes what scripts join evidence from.

    kernel_layer: pass, layer (on its rank) and role of kernels; rank_model: family, layers and
    pipeline stage of each rank; model_stream: the streams that forward passes were found on;
    module_role: the rules for modules.
    """
    configured = con.execute("SELECT MAX(layers) FROM model_config").fetchall()[0][0]
    by_rank = groupby(_streams(con), key=lambda place: place.rank)
    ranks = [_recognised(list(places), configured) for _, places in by_rank]
    tables = [table for found in ranks for table in _kernel_layers(found)]
    write_table(con, "kernel_layer", pa.concat_tables([*tables, _EMPTY]))
    write_table(con, "rank_model", _rank_model(con, [found[0] for found in ranks if found]))
    places = [
        {"rank": f.place.rank, "device": f.place.device, "stream": f.place.number}
        for found in ranks
        for f in found
    ]
    write_table(con, "model_stream", pa.Table.from_pylist(places, _MODEL_STREAM))
    write_table(con, "module_role", _module_roles())


_EMPTY = _KERNEL_LAYER.empty_table()


def _module_roles() -> pa.Table:
    with _MODULE_ROLES.open(newline="", encoding="utf-8") as file:
        rows = [
            {
                "priority": int(row["priority"]),
                "path_pattern": row["path"],
                "positions": row["positions"],
                "symbols": row["symbols"],
                "role": row["role"],
            }
            for row in csv.DictReader(file)
        ]
    return pa.Table.from_pylist(rows, _MODULE_ROLE)


def _streams(con: duckdb.DuckDBPyConnection) -> Sequence[_Place]:
    """Every stream that writes to a KV cache, in the order of ranks."""
    table = con.sql("""
        SELECT
            kernel.rank,
            kernel.device,
            kernel.stream,
            kernel.id,
            kernel.ts,
            ord(kernel.symbol)::UTINYINT AS code,
            COALESCE(kernel.step_id, -1) AS step
        FROM kernel
        WHERE (kernel.rank, kernel.device, kernel.stream) IN (
            SELECT (rank, device, stream) FROM kernel WHERE category = 'kv_cache'
        )
        ORDER BY kernel.rank, kernel.device, kernel.stream, kernel.ts, kernel.id
    """).to_arrow_table()
    place = np.stack([table[name].to_numpy() for name in ("rank", "device", "stream")])
    borders = np.flatnonzero((np.diff(place) != 0).any(axis=0)) + 1
    starts, ends = np.append(0, borders), np.append(borders, table.num_rows)
    parts = [table.slice(a, b - a) for a, b in zip(starts, ends, strict=True) if b > a]
    return [
        _Place(
            part["rank"][0].as_py(),
            part["device"][0].as_py(),
            part["stream"][0].as_py(),
            part["id"].combine_chunks(),
            part["ts"].to_numpy(),
            Stream(part["code"].to_numpy().tobytes().decode("ascii"), part["step"].to_numpy()),
        )
        for part in parts
    ]


def _recognised(places: Sequence[_Place], configured: int | None) -> Sequence[_Found]:
    """The streams of one rank that the grammar explaining most kernels knows.

    None where no grammar knows a whole forward pass. All streams run one model: that of the
    largest pass.
    """
    return max(
        (_by_grammar(places, grammar, configured) for grammar in grammars()),
        key=lambda found: sum(one.layers.explained for one in found),
    )


def _by_grammar(
    places: Sequence[_Place], grammar: Grammar, configured: int | None
) -> Sequence[_Found]:
    found = [layers(place.stream, grammar, configured=configured) for place in places]
    count = max((one.count for one in found if one.count), default=None)
    same = [
        one if one.count == count else layers(place.stream, grammar, count=count)
        for place, one in zip(places, found, strict=True)
    ]
    return [
        _Found(place, one) for place, one in zip(places, same, strict=True) if one.explained > 0
    ]


def _kernel_layers(found: Sequence[_Found]) -> Sequence[pa.Table]:
    """Of each stream of a rank; its passes are counted over all of them, in order of time."""
    begun = [
        (int(one.place.ts[start]), stream, number)
        for stream, one in enumerate(found)
        for number, start in _pass_starts(one.layers)
    ]
    ordinal = {(stream, number): n for n, (_, stream, number) in enumerate(sorted(begun))}
    return [
        _kernel_layer(one, {n: p for (of, n), p in ordinal.items() if of == stream})
        for stream, one in enumerate(found)
    ]


def _pass_starts(found: Layers) -> Sequence[tuple[int, int]]:
    """Each pass with a numbered layer, and where its first one begins."""
    certain = found.number >= 0
    passes, first = np.unique(found.pass_number[certain], return_index=True)
    return list(zip(passes.tolist(), found.start[certain][first].tolist(), strict=True))


def _kernel_layer(found: _Found, ordinal: Mapping[int, int]) -> pa.Table:
    known = roles(found.place.stream, found.layers)
    rows = np.flatnonzero(known.code)
    layer, pass_number = known.layer[rows], known.pass_number[rows]
    of_rank = np.full(max(ordinal, default=-1) + 2, -1, np.int64)  # the last for those of none
    of_rank[list(ordinal)] = list(ordinal.values())
    columns = [
        found.place.ids.take(pa.array(rows)),
        pa.array(of_rank[pass_number], mask=pass_number < 0),
        pa.array(layer, mask=layer < 0),
        pa.DictionaryArray.from_arrays(known.code[rows], pa.array(known.names, pa.string())),
    ]
    return pa.table(columns, schema=_KERNEL_LAYER)


def _rank_model(con: duckdb.DuckDBPyConnection, found: Sequence[_Found]) -> pa.Table:
    held = {one.place.rank: one.layers for one in found}
    placed = stages(con, {rank: one.count or 0 for rank, one in held.items()})
    rows = [
        {
            "rank": rank,
            "family": one.grammar.name,
            "layers": one.count,
            "first_layer": placed[rank].first_layer,
            "stage": placed[rank].stage,
            "stages": placed[rank].stages,
            "source": placed[rank].source,
        }
        for rank, one in held.items()
    ]
    return pa.Table.from_pylist(rows, _RANK_MODEL)
