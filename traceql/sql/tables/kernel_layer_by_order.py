# One row per kernel whose layer or role follows from the order of kernels alone.
# @kind   scratch
# @scope  rank
# @needs  classified_kernel, model_config, symbol, trace
# @column id         BIGINT   Kernel (classified_kernel.id).
# @column rank       BIGINT   Rank.
# @column device     BIGINT   Number of the device on its machine.
# @column stream     BIGINT   Number of the stream.
# @column family     VARCHAR  Layer family that the layers of its rank fit (layer_kind.family); NULL if none fits.
# @column layers     BIGINT   Number of layers that its rank runs in a forward pass.
# @column confirmed  BIGINT   Number of complete forward passes on its stream that have this number of layers; NULL on a stream that only runs beside the layers of another one.
# @column pass       BIGINT   Number of the forward pass on the rank, from 0; NULL outside layers.
# @column layer      BIGINT   Layer, numbered on its rank from 0; NULL outside layers.
# @column role       VARCHAR  Part of the model that it belongs to; NULL if it is unknown.

"""Finds layers and roles by the order of kernels, one rank at a time."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter

import duckdb
import pyarrow as pa

from traceql.analysis.layers.attribution import KernelStream, Model, attributed
from traceql.analysis.layers.kernel_text import Stream, folded, letter, part_codes
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import mapped_columns

_CONFIGURED = "SELECT MAX(model_type), MAX(layers) FROM model_config"
# Streams of ranks with anchors: writes to a KV cache, or updates of the state of linear attention.
# HCCL runs its operations on streams of its own, and the stream of an Ascend device that computes, the
# one with the most kernels, awaits them. So in the order of kernels they belong to it.
_ANCHORED = """
    WITH recorded AS (
        SELECT
            kernel.rank, kernel.device, kernel.stream,
            BOOL_OR(COALESCE(list_contains(symbol.traits, 'anchors_layer'), FALSE)) AS has_anchors,
            BOOL_AND(kernel.category = 'collective') AS only_communicates,
            COUNT(*) FILTER (
                trace.dialect = 'ascend' AND kernel.kind = 'kernel' AND kernel.category <> 'collective'
            ) AS awaiting_kernels
        FROM classified_kernel AS kernel
        LEFT JOIN symbol ON kernel.symbol = symbol.letter
        LEFT JOIN trace ON kernel.rank = trace.rank
        WHERE kernel.ts IS NOT NULL
        GROUP BY kernel.rank, kernel.device, kernel.stream
    ),
    placed AS (
        SELECT
            *,
            FIRST_VALUE(CASE WHEN awaiting_kernels > 0 THEN stream END) OVER (
                PARTITION BY rank, device ORDER BY awaiting_kernels DESC, stream
            ) AS awaiting,
            BOOL_OR(has_anchors) OVER (PARTITION BY rank) AS is_of_model
        FROM recorded
    )
    SELECT rank, device, stream, awaiting
    FROM placed
    WHERE is_of_model AND (awaiting IS NULL OR NOT only_communicates)
    ORDER BY rank, device, stream
"""
_KERNELS = """
    SELECT
        id, ts,
        ts + GREATEST(dur, 0) AS end_ts,
        ord(symbol)::UTINYINT AS code,
        COALESCE(part.letter, ord('-'))::UTINYINT AS part,
        COALESCE(step_id, -1) AS step
    FROM classified_kernel
    LEFT JOIN incoming AS part USING (name)
    WHERE
        rank = $rank AND device = $device AND ts IS NOT NULL
        AND CASE category WHEN 'collective' THEN COALESCE($awaiting, stream) ELSE stream END = $stream
    ORDER BY ts, id
"""
_ELEMENTWISE = "SELECT DISTINCT name FROM classified_kernel WHERE symbol = ?"


@dataclass(frozen=True)
class _Place:
    """A stream with kernels.

    Attributes:
        awaiting: the stream of its device that collectives belong to; None if that is their own one.
    """

    rank: int
    device: int
    stream: int
    awaiting: int | None


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    model = Model(*con.execute(_CONFIGURED).fetchall()[0])
    names = con.execute(_ELEMENTWISE, [letter("elementwise")]).fetchall()
    con.register("incoming", part_codes(name for (name,) in names))
    anchored = [_Place(*place) for place in con.execute(_ANCHORED).fetchall()]
    for _, places in groupby(anchored, attrgetter("rank")):
        yield from attributed([_stream(con, place) for place in places], model)
    con.unregister("incoming")


def _stream(con: duckdb.DuckDBPyConnection, place: _Place) -> KernelStream:
    kernels = mapped_columns(con, _KERNELS, asdict(place))
    letters, parts = (kernels[name].tobytes().decode("ascii") for name in ("code", "part"))
    return KernelStream(
        place.rank,
        place.device,
        place.stream,
        kernels["id"],
        kernels["ts"],
        kernels["end_ts"],
        Stream(folded(letters, parts), kernels["step"]),
    )
