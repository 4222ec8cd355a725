# One row per kernel whose layer or role follows from the order of kernels alone.
# @kind   scratch
# @scope  rank
# @needs  awaited_stream, classified_kernel, model_config, symbol
# @column id         BIGINT   Kernel (classified_kernel.id).
# @column rank       BIGINT   Rank.
# @column device     BIGINT   Number of the device on its machine.
# @column stream     BIGINT   Number of the stream.
# @column family     VARCHAR  Layer family that the layers of its rank fit (layer_family.family); NULL if none fits.
# @column layers     BIGINT   Number of layers that its rank runs in a forward pass.
# @column confirmed  BIGINT   Number of complete forward passes on its stream that have so many layers; NULL on a stream that only runs beside the layers of another one.
# @column pass       BIGINT   Number of the forward pass on the rank, from 0; NULL outside layers.
# @column layer      BIGINT   Layer, numbered on its rank from 0; NULL outside layers.
# @column role       VARCHAR  Part of the model that it belongs to; NULL if it is unknown.

"""Finds layers and roles by the order of kernels, one rank at a time."""

from collections.abc import Iterator
from itertools import groupby

import duckdb
import numpy as np
import pyarrow as pa

from traceql.layers.attribution import KernelStream, Model, attributed
from traceql.layers.stream import Stream
from traceql.layers.symbols import letter
from traceql.layers.unfused import folded, part
from traceql.table_head import declared_schema

_CONFIGURED = "SELECT MAX(model_type), MAX(layers) FROM model_config"
# Streams of ranks with anchors: writes to a KV cache, or updates of the state of linear attention.
_STREAMS = """
    SELECT
        rank,
        device,
        COALESCE(awaited_stream.stream, classified_kernel.stream) AS stream,
        id,
        ts,
        ts + GREATEST(dur, 0) AS end_ts,
        ord(symbol)::UTINYINT AS code,
        COALESCE(part.letter, ord('-'))::UTINYINT AS part,
        COALESCE(step_id, -1) AS step
    FROM classified_kernel
    LEFT JOIN incoming AS part USING (name)
    LEFT JOIN awaited_stream USING (id)
    WHERE rank IN (
        SELECT classified_kernel.rank
        FROM classified_kernel
        INNER JOIN symbol ON classified_kernel.symbol = symbol.letter
        WHERE list_contains(symbol.traits, 'anchors_layer')
    )
    ORDER BY rank, device, 3, ts, id
"""
_ELEMENTWISE = "SELECT DISTINCT name FROM classified_kernel WHERE symbol = ?"


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    model = Model(*con.execute(_CONFIGURED).fetchall()[0])
    by_rank = groupby(_streams(con), key=lambda one: one.rank)
    found = [table for _, streams in by_rank for table in attributed(list(streams), model)]
    return pa.concat_tables(found) if found else declared_schema(__file__).empty_table()


def _streams(con: duckdb.DuckDBPyConnection) -> Iterator[KernelStream]:
    """Every stream of the ranks that run layers, in the order of ranks."""
    con.register("incoming", _norm_parts(con))
    table = con.sql(_STREAMS).to_arrow_table()
    con.unregister("incoming")
    place = np.stack([table[name].to_numpy() for name in ("rank", "device", "stream")])
    borders = np.flatnonzero((np.diff(place) != 0).any(axis=0)) + 1
    starts, ends = np.append(0, borders), np.append(borders, table.num_rows)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end > start:
            yield _stream(table.slice(start, end - start))


def _norm_parts(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """The names of kernels that can be a part of a norm, with the code of the part's letter."""
    names = [name for (name,) in con.execute(_ELEMENTWISE, [letter("elementwise")]).fetchall()]
    parts = [ord(part(name)) for name in names]
    return pa.table({"name": pa.array(names, pa.string()), "letter": pa.array(parts, pa.uint8())})


def _stream(table: pa.Table) -> KernelStream:
    letters, parts = (table[name].to_numpy().tobytes().decode("ascii") for name in ("code", "part"))
    return KernelStream(
        table["rank"][0].as_py(),
        table["device"][0].as_py(),
        table["stream"][0].as_py(),
        table["id"].combine_chunks(),
        table["ts"].to_numpy(),
        table["end_ts"].to_numpy(),
        Stream(
            folded(letters, parts, letter("norm"), letter("unclassified")), table["step"].to_numpy()
        ),
    )
