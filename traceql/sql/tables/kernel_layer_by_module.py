# One row per kernel whose module is known: the layer and role that follow from the module.
#
# The module is that of an annotation or frame around the launch call, or that of the CUDA graph
# node that was replayed, if the capture recorded the modules of nodes.
#
# A forward pass begins on its thread when a layer is entered once more than any layer before: by a call of its module,
# by the first of its ranges, or by the replay of a graph with its nodes. Where the order of kernels shows passes too
# (kernel_layer_by_order), these have the same number, and passes that only modules show have numbers after those.
# @kind   scratch
# @scope  rank
# @needs  activity, classified_kernel, decoder_layer, graph_node, is_of_other_model, kernel_layer_by_order, kernel_module, module, slice, symbol
# @column id     BIGINT   Kernel (classified_kernel.id).
# @column kind   VARCHAR  Where the module is known from: graph_node, module or annotation.
# @column pass   BIGINT   Number of the forward pass on the rank, from 0; NULL outside layers.
# @column layer  BIGINT   Layer in the path of the module; NULL if it names none.
# @column role   VARCHAR  Part of the model that the kernel belongs to; NULL if no rule of traceql/analysis/layers/modules.csv matches.

"""Gives kernels the roles of traceql/analysis/layers/modules.csv."""

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from traceql.analysis.layers.roles import module_roles
from traceql.sql.definition import declared_schema
from traceql.util.arrow_duckdb import query_tables

_IS_KNOWN = "SELECT EXISTS (FROM kernel_module) OR EXISTS (FROM graph_node)"
_EVIDENCE = """
    WITH known AS (
        SELECT
            kernel.id, kernel.rank, kernel.ts, kernel.launch_id,
            'graph_node' AS kind,
            decoder_layer(graph_node.path) AS layer,
            graph_node.path, graph_node.position, graph_node_id,
            kernel.symbol,
            ROW_NUMBER() OVER (
                PARTITION BY kernel.launch_id, graph_node.path, kernel.symbol
                ORDER BY kernel.ts, kernel.id
            ) AS place
        FROM graph_node
        INNER JOIN activity USING (graph_node_id)
        INNER JOIN classified_kernel AS kernel ON activity.id = kernel.id AND graph_node.rank = kernel.rank
        WHERE kernel.in_graph AND graph_node.path IS NOT NULL
        UNION ALL
        SELECT
            kernel.id, kernel.rank, kernel.ts, kernel.launch_id, module.kind, module.layer, module.path, module.position,
            NULL AS graph_node_id,
            kernel.symbol,
            ROW_NUMBER() OVER (
                PARTITION BY module.id, kernel.symbol ORDER BY kernel.ts, kernel.id
            ) AS place
        FROM kernel_module
        INNER JOIN classified_kernel AS kernel USING (id)
        INNER JOIN module ON kernel_module.module_id = module.id
    ),
    path_role AS (
        SELECT part.path, part.symbol, part.position, arg_min(rule.role, rule.priority) AS role
        FROM (SELECT DISTINCT path, symbol, LEAST(position, 9) AS position FROM known) AS part
        INNER JOIN incoming AS rule
            ON regexp_matches(part.path, rule.path)
            AND (len(rule.symbols) = 0 OR list_contains(rule.symbols, part.symbol))
            AND regexp_matches(CAST(part.position AS VARCHAR), rule.positions)
        WHERE NOT is_of_other_model(part.path)
        GROUP BY ALL
    ),
    -- When and where the host launched each kernel of a layer; of a replay without its call, the kernel itself.
    launched AS (
        SELECT
            known.id, known.rank, known.kind, known.layer, known.launch_id, known.graph_node_id,
            slice.track_id, slice.ts, known.ts AS kernel_ts
        FROM known
        INNER JOIN slice ON COALESCE(known.launch_id, known.id) = slice.id
        WHERE known.layer IS NOT NULL
    ),
    entry AS (
        SELECT
            module.rank, slice.track_id, slice.ts, module.id AS place, module.layer,
            concat(module.class, ' ', module.number) AS instance
        FROM module
        INNER JOIN slice USING (id)
        LEFT JOIN module AS outside ON module.parent_id = outside.id
        WHERE module.layer IS NOT NULL AND module.layer IS DISTINCT FROM outside.layer
        UNION ALL
        SELECT rank, track_id, ts, MIN(kernel_ts), layer, CAST(MIN(graph_node_id) AS VARCHAR)
        FROM launched
        WHERE kind = 'graph_node'
        GROUP BY COALESCE(launch_id, id), rank, track_id, ts, layer
    ),
    -- Entries of one layer in a row are one call of it, such as the ranges of its parts, until the first of them recurs.
    numbered AS (
        SELECT *, SUM(is_new::INTEGER) OVER (PARTITION BY rank, track_id ORDER BY ts, place) AS run
        FROM (
            SELECT *, layer IS DISTINCT FROM LAG(layer) OVER (PARTITION BY rank, track_id ORDER BY ts, place) AS is_new
            FROM entry
        )
    ),
    called AS (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY rank, track_id, layer ORDER BY ts, place) AS call
        FROM (
            FROM numbered
            QUALIFY instance = FIRST_VALUE(instance) OVER (PARTITION BY rank, track_id, run ORDER BY ts, place)
        )
    ),
    passed AS (
        SELECT *, MAX(call) OVER (PARTITION BY rank, track_id ORDER BY ts, place) AS pass_of_thread FROM called
    ),
    begun AS (
        SELECT *, MIN(ts) OVER (PARTITION BY rank, track_id, pass_of_thread) AS pass_ts FROM passed
    ),
    pass AS (
        SELECT
            rank, track_id, ts, layer,
            DENSE_RANK() OVER (PARTITION BY rank ORDER BY pass_ts, track_id, pass_of_thread) - 1 AS number
        FROM begun
    ),
    in_pass AS (
        SELECT
            launched.id,
            COALESCE(
                ordered.pass,
                MIN(ordered.pass) OVER (PARTITION BY launched.rank, pass.number),
                pass.number + COALESCE(last.pass + 1, 0)
            ) AS pass
        FROM launched
        ASOF INNER JOIN pass
            ON launched.rank = pass.rank AND launched.track_id = pass.track_id AND launched.layer = pass.layer
            AND launched.ts >= pass.ts
        LEFT JOIN kernel_layer_by_order AS ordered ON launched.id = ordered.id
        LEFT JOIN (SELECT rank, MAX(pass) AS pass FROM kernel_layer_by_order GROUP BY rank) AS last
            ON launched.rank = last.rank
    )
    -- Only the order of calls distinguishes the two norms of a layer, and the two GEMMs of its experts.
    SELECT
        known.id, known.kind, in_pass.pass, known.layer,
        CASE
            WHEN regexp_matches(known.path, '(DecoderLayer|TransformerBlock)/\\w*RMSNorm$') AND known.position = 1 THEN 'input_norm'
            WHEN regexp_matches(known.path, '(DecoderLayer|TransformerBlock)/\\w*RMSNorm$') THEN 'post_attn_norm'
            WHEN symbol.name = 'expert_gemm' AND known.place = 1 THEN 'experts_gate_up'
            WHEN symbol.name = 'expert_gemm' THEN 'experts_down'
            ELSE path_role.role
        END AS role
    FROM known
    INNER JOIN symbol ON known.symbol = symbol.letter
    LEFT JOIN path_role
        ON known.path = path_role.path AND known.symbol = path_role.symbol
        AND LEAST(known.position, 9) = path_role.position
    LEFT JOIN in_pass ON known.id = in_pass.id
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    if con.execute(_IS_KNOWN).fetchall()[0][0]:
        con.register("incoming", module_roles())
        yield from query_tables(con, _EVIDENCE)
        con.unregister("incoming")
