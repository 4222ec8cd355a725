# One row per rank that runs a model whose layers were recognized.
# @scope  run
# @needs  classified_kernel, kernel_layer_by_order, run, run_file, symbol, trace
# @column rank         BIGINT   Rank.
# @column family       VARCHAR  Layer family that its layers fit (layer_kind.family); NULL if none fits, and then roles follow only from the kinds and places of kernels.
# @column layers       BIGINT   Number of layers that it runs in a forward pass.
# @column confirmed    BIGINT   Number of complete forward passes that have this number of layers: each of them confirms where the layers begin.
# @column first_layer  BIGINT   Number of its first layer in the whole model, from 0; NULL if it is unknown, and then the layers of the rank count from 0.
# @column stage        BIGINT   Pipeline stage, from 0; NULL if unknown.
# @column stages       BIGINT   Number of pipeline stages of the run, loaded or not; NULL if unknown.
# @column source       VARCHAR  How the stage is known, such as run.json or file names, or why it is unknown.

"""Finds the pipeline stage of each rank, and so the layers of the model that it holds."""

import json
from dataclasses import asdict

import duckdb
import pyarrow as pa

from traceql.analysis.collectives.layout import Sizes
from traceql.analysis.layers.layer_numbers import Evidence, Held, stages
from traceql.sql.definition import declared_schema

_HELD = """
    SELECT rank, family, layers, SUM(confirmed)::BIGINT
    FROM (
        SELECT DISTINCT rank, device, stream, family, layers, confirmed
        FROM kernel_layer_by_order
        WHERE confirmed IS NOT NULL
    )
    GROUP BY ALL
    ORDER BY rank
"""
_NAMED = "SELECT rank, pp_rank FROM trace WHERE rank IS NOT NULL"
# Whether run.json lists every trace; if it does, their parallel ranks are from there.
_BY_RUN = """
    SELECT COALESCE(BOOL_AND(run_file.path IS NOT NULL), FALSE)
    FROM trace
    LEFT JOIN run_file
        ON starts_with(trace.path, run_file.path || '/')
        AND list_contains(
            json_extract_string(run_file.document, '$.ranks[*].trace'),
            trace.path[len(run_file.path) + 2:]
        )
    WHERE trace.rank IS NOT NULL
"""
_EXCHANGING = """
    SELECT DISTINCT classified_kernel.rank
    FROM classified_kernel
    INNER JOIN symbol ON classified_kernel.symbol = symbol.letter
    LEFT JOIN kernel_layer_by_order USING (id)
    WHERE symbol.name = 'point_to_point' AND kernel_layer_by_order.layer IS NULL
"""
_WITH_LOGITS = "SELECT DISTINCT rank FROM kernel_layer_by_order WHERE role = 'lm_head'"
_WORLD = "SELECT COALESCE(MAX(world_size), COUNT(rank)) FROM trace"
_STATED = "SELECT tp, pp, dp FROM run"
_RUNS = "SELECT document FROM run_file"


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    held = con.execute(_HELD).fetchall()
    known = Evidence(
        layers={rank: layers for rank, _, layers, _ in held},
        named=dict(con.execute(_NAMED).fetchall()),
        named_by="run.json" if con.execute(_BY_RUN).fetchall()[0][0] else "file names",
        exchanging={rank for (rank,) in con.execute(_EXCHANGING).fetchall()},
        with_logits={rank for (rank,) in con.execute(_WITH_LOGITS).fetchall()},
        world=con.execute(_WORLD).fetchall()[0][0],
        stated=Sizes.stated(con.execute(_STATED).fetchall()).pp,
        stated_layers=_layers_of_runs(con),
    )
    placed = stages(known)
    listed = [
        {
            "rank": rank,
            "family": family,
            "layers": layers,
            "confirmed": confirmed,
            **asdict(placed[rank]),
        }
        for rank, family, layers, confirmed in held
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))


def _layers_of_runs(con: duckdb.DuckDBPyConnection) -> dict[int, Held]:
    """The layers of each rank that run.json states."""
    held = {}
    for (document,) in con.execute(_RUNS).fetchall():
        for facts in json.loads(document).get("ranks") or []:
            first, layers = facts.get("first_layer"), facts.get("layers")
            if type(first) is int and type(layers) is int and 0 <= first < 2**31 and layers > 0:
                held[facts["rank"]] = Held(first, layers)
    return held
