# One row per kernel whose module is known: the layer and role that follow from the module.
#
# The module is that of an annotation or frame around the launch call, or that of the CUDA graph
# node that was replayed, if the capture recorded the modules of nodes.
# @kind   scratch
# @scope  rank
# @needs  activity, classified_kernel, decoder_layer, graph_node, is_of_other_model, kernel_module, module, symbol
# @column id     BIGINT   Kernel (classified_kernel.id).
# @column kind   VARCHAR  Where the module is known from: graph_node, module or annotation.
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
            kernel.id,
            'graph_node' AS kind,
            decoder_layer(graph_node.path) AS layer,
            graph_node.path, graph_node.position,
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
            kernel.id, module.kind, module.layer, module.path, module.position, kernel.symbol,
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
    )
    -- Only the order of calls distinguishes the two norms of a layer, and the two GEMMs of its experts.
    SELECT
        known.id, known.kind, known.layer,
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
"""


def rows(con: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    yield declared_schema(__file__).empty_table()
    if con.execute(_IS_KNOWN).fetchall()[0][0]:
        con.register("incoming", module_roles())
        yield from query_tables(con, _EVIDENCE)
        con.unregister("incoming")
