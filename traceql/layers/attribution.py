"""Which layer and role each kernel has by the order of kernels, and what model each rank runs."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from traceql.layers.grammar import grammars
from traceql.layers.sequence import Layers, Stream, layers, roles
from traceql.layers.stages import stages
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
        ("symbols", pa.string()),
        ("role", pa.string()),
    ]
)


@dataclass(frozen=True)
class _Found:
    """One stream with forward passes that a grammar knows."""

    rank: int
    device: int
    number: int
    ids: pa.Array
    stream: Stream
    layers: Layers


def attribute_by_sequence(con: duckdb.DuckDBPyConnection) -> None:
    """Writes what scripts join evidence from.

    kernel_layer: layer (on its rank) and role of
    kernels; rank_model: family, layers and pipeline stage of each rank; model_stream: the streams
    that forward passes were found on; module_role: the rules for modules.
    """
    found = [one for place in _streams(con) if (one := _recognised(*place))]
    _write(con, "kernel_layer", pa.concat_tables([*map(_kernel_layer, found), _EMPTY]))
    _write(con, "rank_model", _rank_model(con, found))
    places = [{"rank": f.rank, "device": f.device, "stream": f.number} for f in found]
    _write(con, "model_stream", pa.Table.from_pylist(places, _MODEL_STREAM))
    _write(con, "module_role", _module_roles())


_EMPTY = _KERNEL_LAYER.empty_table()


def _write(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    con.register("incoming", table)
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM incoming")
    con.unregister("incoming")


def _module_roles() -> pa.Table:
    with _MODULE_ROLES.open(newline="", encoding="utf-8") as file:
        rows = [
            {
                "priority": int(row["priority"]),
                "path_pattern": row["path"],
                "symbols": row["symbols"],
                "role": row["role"],
            }
            for row in csv.DictReader(file)
        ]
    return pa.Table.from_pylist(rows, _MODULE_ROLE)


def _streams(
    con: duckdb.DuckDBPyConnection,
) -> Sequence[tuple[int, int, int, pa.Array, Stream]]:
    """Rank, device and number of every stream that writes to a KV cache, and its kernels."""
    table = con.sql("""
        SELECT
            kernel.rank,
            kernel.device,
            kernel.stream,
            kernel.id,
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
        (
            *(part[name][0].as_py() for name in ("rank", "device", "stream")),
            part["id"].combine_chunks(),
            Stream(part["code"].to_numpy().tobytes().decode("ascii"), part["step"].to_numpy()),
        )
        for part in parts
    ]


def _recognised(
    rank: int, device: int, number: int, ids: pa.Array, stream: Stream
) -> _Found | None:
    """By the grammar that explains most kernels; None where none knows a whole forward pass."""
    best = max((layers(stream, grammar) for grammar in grammars()), key=_explained)
    return _Found(rank, device, number, ids, stream, best) if _explained(best) else None


def _explained(found: Layers) -> int:
    certain = found.number >= 0
    return int((found.end - found.start)[certain].sum())


def _kernel_layer(found: _Found) -> pa.Table:
    known = roles(found.stream, found.layers)
    rows = np.flatnonzero(known.role != "")
    layer, pass_number = known.layer[rows], known.pass_number[rows]
    columns = [
        found.ids.take(pa.array(rows)),
        pa.array(pass_number, mask=pass_number < 0),
        pa.array(layer, mask=layer < 0),
        pa.array(known.role[rows], pa.string()).dictionary_encode(),
    ]
    return pa.table(columns, schema=_KERNEL_LAYER)


def _rank_model(con: duckdb.DuckDBPyConnection, found: Sequence[_Found]) -> pa.Table:
    held = {one.rank: one for one in found}
    placed = stages(con, {rank: one.layers.count or 0 for rank, one in held.items()})
    rows = [
        {
            "rank": rank,
            "family": one.layers.grammar.name,
            "layers": one.layers.count,
            "first_layer": placed[rank].first_layer,
            "stage": placed[rank].stage,
            "stages": placed[rank].stages,
            "source": placed[rank].source,
        }
        for rank, one in held.items()
    ]
    return pa.Table.from_pylist(rows, _RANK_MODEL)
