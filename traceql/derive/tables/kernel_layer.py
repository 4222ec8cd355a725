# One row per kernel whose layer or role follows from the order of kernels alone.
# @kind   scratch
# @scope  rank
# @needs  awaited_stream, classified_kernel, model_config, symbol
# @column id         BIGINT   Kernel (classified_kernel.id).
# @column rank       BIGINT   Rank.
# @column device     BIGINT   Number of the device on its machine.
# @column stream     BIGINT   Number of the stream.
# @column family     VARCHAR  Layer family that the layers of its rank fit (layer_kind.family); NULL if none fits.
# @column layers     BIGINT   Number of layers that its rank runs in a forward pass.
# @column confirmed  BIGINT   Number of complete forward passes on its stream that have so many layers; NULL on a stream that only runs beside the layers of another one.
# @column pass       BIGINT   Number of the forward pass on the rank, from 0; NULL outside layers.
# @column layer      BIGINT   Layer, numbered on its rank from 0; NULL outside layers.
# @column role       VARCHAR  Part of the model that it belongs to; NULL if it is unknown.

"""Finds layers and roles by the order of kernels, one rank at a time."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import duckdb
import pyarrow as pa

from traceql.layers.attribution import KernelStream, Model, attributed
from traceql.layers.stream import Stream
from traceql.layers.symbols import letter
from traceql.layers.unfused import folded, parts_of_norms
from traceql.spooled import mapped_columns
from traceql.table_head import declared_schema

_CONFIGURED = "SELECT MAX(model_type), MAX(layers) FROM model_config"
# Streams of ranks with anchors: writes to a KV cache, or updates of the state of linear attention.
_ANCHORED = """
    WITH kind_of_kernel AS (
        SELECT DISTINCT
            rank,
            device,
            COALESCE(awaited_stream.stream, classified_kernel.stream) AS stream,
            symbol
        FROM classified_kernel
        LEFT JOIN awaited_stream USING (id)
    )
    SELECT DISTINCT rank, device, stream
    FROM kind_of_kernel
    WHERE rank IN (
        SELECT rank
        FROM kind_of_kernel
        INNER JOIN symbol ON kind_of_kernel.symbol = symbol.letter
        WHERE list_contains(symbol.traits, 'anchors_layer')
    )
    ORDER BY ALL
"""
_PLACED = """
    SELECT
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
    WHERE rank = $rank
"""
_KERNELS = f"""
    SELECT id, ts, end_ts, code, part, step
    FROM ({_PLACED})
    WHERE device = $device AND stream IS NOT DISTINCT FROM $stream
    ORDER BY ts, id
"""
_ELEMENTWISE = "SELECT DISTINCT name FROM classified_kernel WHERE symbol = ?"


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    model = Model(*con.execute(_CONFIGURED).fetchall()[0])
    con.register("incoming", _norm_parts(con))
    for _, places in groupby(con.execute(_ANCHORED).fetchall(), itemgetter(0)):
        yield from attributed([_stream(con, *place) for place in places], model)
    con.unregister("incoming")


def _norm_parts(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """The names of kernels that can be a part of a norm, with the code of the part's letter."""
    names = [name for (name,) in con.execute(_ELEMENTWISE, [letter("elementwise")]).fetchall()]
    parts = parts_of_norms(names)
    codes = [ord(one) for one in parts.values()]
    return pa.table(
        {"name": pa.array(list(parts), pa.string()), "letter": pa.array(codes, pa.uint8())}
    )


def _stream(con: duckdb.DuckDBPyConnection, rank: int, device: int, stream: int) -> KernelStream:
    asked = {"rank": rank, "device": device, "stream": stream}
    kernels = mapped_columns(con, _KERNELS, asked)
    letters, parts = (kernels[name].tobytes().decode("ascii") for name in ("code", "part"))
    symbols = folded(letters, parts, letter("norm"), letter("unclassified"))
    return KernelStream(
        rank,
        device,
        stream,
        kernels["id"],
        kernels["ts"],
        kernels["end_ts"],
        Stream(symbols, kernels["step"]),
    )
