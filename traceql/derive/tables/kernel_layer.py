# One row per kernel whose layer or role follows from the order of kernels alone.
# @kind   scratch
# @scope  rank
# @needs  classified_kernel, model_config
# @column id      BIGINT   Kernel (classified_kernel.id).
# @column rank    BIGINT   Rank.
# @column device  BIGINT   Number of the device on its machine.
# @column stream  BIGINT   Number of the stream.
# @column family  VARCHAR  Layer family that the kernels of its rank match (layer_family.family).
# @column layers  BIGINT   Number of layers that its rank runs in a forward pass.
# @column pass    BIGINT   Number of the forward pass on the rank, from 0; NULL outside layers.
# @column layer   BIGINT   Layer, numbered on its rank from 0; NULL outside layers.
# @column role    VARCHAR  Part of the model that it belongs to.

"""Finds layers and roles by the order of kernels, one rank at a time."""

from collections.abc import Iterator
from itertools import groupby

import duckdb
import numpy as np
import pyarrow as pa

from traceql.layers.attribution import KernelStream, attributed
from traceql.layers.sequence import Stream
from traceql.table_head import declared_schema

_CONFIGURED = "SELECT MAX(layers) FROM model_config"
_STREAMS = """
    SELECT
        rank,
        device,
        stream,
        id,
        ts,
        ord(symbol)::UTINYINT AS code,
        COALESCE(step_id, -1) AS step
    FROM classified_kernel
    WHERE (rank, device, stream) IN (
        SELECT (rank, device, stream) FROM classified_kernel WHERE category = 'kv_cache'
    )
    ORDER BY rank, device, stream, ts, id
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    configured = con.execute(_CONFIGURED).fetchall()[0][0]
    by_rank = groupby(_streams(con), key=lambda one: one.rank)
    found = [table for _, streams in by_rank for table in attributed(list(streams), configured)]
    return pa.concat_tables(found) if found else declared_schema(__file__).empty_table()


def _streams(con: duckdb.DuckDBPyConnection) -> Iterator[KernelStream]:
    """Every stream that has writes to a KV cache, in the order of ranks."""
    table = con.sql(_STREAMS).to_arrow_table()
    place = np.stack([table[name].to_numpy() for name in ("rank", "device", "stream")])
    borders = np.flatnonzero((np.diff(place) != 0).any(axis=0)) + 1
    starts, ends = np.append(0, borders), np.append(borders, table.num_rows)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end > start:
            yield _stream(table.slice(start, end - start))


def _stream(part: pa.Table) -> KernelStream:
    letters = part["code"].to_numpy().tobytes().decode("ascii")
    return KernelStream(
        part["rank"][0].as_py(),
        part["device"][0].as_py(),
        part["stream"][0].as_py(),
        part["id"].combine_chunks(),
        part["ts"].to_numpy(),
        Stream(letters, part["step"].to_numpy()),
    )
