# One row per kernel whose layer or role follows from the order of kernels alone.
# @kind   scratch
# @scope  rank
# @needs  classified_kernel, model_config
# @column id      BIGINT   Row of classified_kernel.
# @column rank    BIGINT   Rank.
# @column device  BIGINT   Device number on its host.
# @column stream  BIGINT   Stream number.
# @column family  VARCHAR  Layer family that the kernels of its rank match; as in layer_family.
# @column layers  BIGINT   Layers that its rank runs in a forward pass.
# @column pass    BIGINT   Forward pass of the rank, from 0; NULL outside layers.
# @column layer   BIGINT   Layer on its rank, from 0; NULL outside layers.
# @column role    VARCHAR  Role.

"""Layers and roles by the order of kernels, one rank at a time."""

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
    """Every stream that writes to a KV cache, in the order of ranks."""
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
