# One row per rank: its position in the parallelism, even if it is unknown what the ranks share.
#
# The table layout has only what is known.
# @kind   scratch
# @scope  run
# @needs  kernel, load_check, operation, rank_model, run, run_file, slice, trace
# @column rank          BIGINT   Rank.
# @column tp            BIGINT   Position among the ranks of its stage and replica that communicate, from 0.
# @column pp            BIGINT   Pipeline stage, from 0.
# @column dp            BIGINT   Replica, from 0.
# @column tp_size       BIGINT   Number of ranks of a stage and replica, loaded or not; NULL if unknown.
# @column pp_size       BIGINT   Number of stages; NULL if unknown.
# @column dp_size       BIGINT   Number of replicas; NULL if unknown.
# @column shared        VARCHAR  What the ranks of a stage share: tensors (tensor parallelism) or work (data parallelism); NULL if unknown.
# @column stages_known  BOOLEAN  Whether the stages are known.
# @column replicas_apart  BOOLEAN  Whether replicas share nothing, not even experts.
# @column source        VARCHAR  Evidence for the position; as in layout.

"""Collects the evidence for the place of each rank and takes the best."""

import json

import duckdb
import pyarrow as pa

from traceql.analysis.collectives.layout import Operations, RankFacts, RankPosition, Sizes
from traceql.analysis.collectives.layout_inference import inferred_layout
from traceql.readers.dialects.registry import loaded_facts
from traceql.sql.definition import declared_schema

_RANKS = """
    SELECT
        trace.rank, world_size, tp_rank, pp_rank, dp_rank, stage, stages, dialect, metadata,
        load_check.value, load_check.total
    FROM trace
    LEFT JOIN rank_model USING (rank)
    LEFT JOIN load_check ON trace.rank = load_check.rank AND load_check.check_name = 'replica'
    WHERE trace.rank IS NOT NULL
    ORDER BY trace.rank
"""
_RUNS = "SELECT document FROM run_file"
_REDUCES_LAYERS = """
    SELECT EXISTS (
        SELECT 1
        FROM kernel
        WHERE category = 'collective' AND role IN ('attn_allreduce', 'mlp_allreduce')
    )
"""
# Of operations that only tensor parallelism has.
_TENSOR_RANKS = """
    SELECT CASE WHEN MIN(group_size) = MAX(group_size) THEN MIN(group_size) END
    FROM operation
    WHERE role IN ('attn_allreduce', 'logits_gather')
"""
_STATED = "SELECT tp, pp, dp FROM run"
# DistributedDataParallel averages gradients across replicas.
_REDUCES_GRADIENTS = """
    SELECT EXISTS (
        SELECT 1
        FROM slice
        WHERE name IN ('torch.distributed.ddp.reducer::copy_bucket_to_grad', 'DistributedDataParallel.forward')
    )
"""


def rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    ranks = [_facts(*row) for row in con.execute(_RANKS).fetchall()]
    layout = inferred_layout(
        ranks,
        _places_of_runs(con),
        Operations(
            reduce_layers=con.execute(_REDUCES_LAYERS).fetchall()[0][0],
            reduce_gradients=con.execute(_REDUCES_GRADIENTS).fetchall()[0][0],
            tensor_ranks=con.execute(_TENSOR_RANKS).fetchall()[0][0],
        ),
        Sizes.stated(con.execute(_STATED).fetchall()),
    )
    listed = [
        {
            "rank": rank,
            "tp": place.tp,
            "pp": place.pp,
            "dp": place.dp,
            "tp_size": layout.tp,
            "pp_size": layout.pp,
            "dp_size": layout.dp,
            "shared": layout.shared,
            "stages_known": layout.stages_known,
            "replicas_apart": layout.apart,
            "source": layout.source,
        }
        for rank, place in sorted(layout.places.items())
    ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))


def _facts(
    rank: int,
    world_size: int | None,
    tp: int | None,
    pp: int | None,
    dp: int | None,
    stage: int | None,
    stages: int | None,
    dialect: str,
    metadata: str | None,
    replica: int | None,
    replicas: int | None,
) -> RankFacts:
    named = None if tp is None or pp is None or dp is None else RankPosition(tp=tp, pp=pp, dp=dp)
    groups = loaded_facts(dialect, metadata).groups_in_run(rank)
    return RankFacts(rank, world_size, named, stage, groups, stages, replica, replicas or 1)


def _places_of_runs(con: duckdb.DuckDBPyConnection) -> dict[int, RankPosition]:
    """The place of each rank that run.json states."""
    places = {}
    for (document,) in con.execute(_RUNS).fetchall():
        for facts in json.loads(document).get("ranks") or []:
            values = [facts.get(name) for name in ("rank", "tp_rank", "pp_rank", "dp_rank")]
            if all(isinstance(value, int) for value in values):
                rank, tp, pp, dp = values
                places[rank] = RankPosition(tp=tp, pp=pp, dp=dp)
    return places
