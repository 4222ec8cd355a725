-- One row per rank, tensor-parallel size and part of the model that is alike in several layers: what it does in all of them.
--
-- These are the layers that the rank runs; those of the sizes that it does not have say what it would
-- do there.
-- @scope  run
-- @needs  cost, layout, model_part, rank_model, step_tokens
-- @empty_unless model_part
-- @column rank                   BIGINT    Rank.
-- @column tp                     BIGINT    Ranks that the tensors of a layer are split over.
-- @column role                   VARCHAR   Part of the model; as in kernel.
-- @column formula                VARCHAR   Formula of its cost (cost_formula.formula).
-- @column dtype                  VARCHAR   Whose peak its FLOPs count against (peak.dtype).
-- @column rows_of                VARCHAR   What it has one row for: tokens, or logit_rows (see step_tokens).
-- @column layers                 BIGINT    Layers that have it so; 1 outside layers.
-- @column flops_per_row          BIGINT    FLOPs of one layer for each row.
-- @column context_pair_flops     BIGINT    FLOPs of one layer for each pair of a query and a key of a prompt.
-- @column generation_pair_flops  BIGINT    FLOPs of one layer for each pair of a query and a key of a request that generates.
-- @column weight_bytes           DOUBLE    Bytes of the weights of one layer, of all experts on the rank; NULL if unknown.
-- @column row_bytes              DOUBLE    Bytes of weights and KV cache that each row reads or writes in one layer; NULL if the type of the KV cache is unknown.
-- @column kv_bytes               DOUBLE    Bytes of one layer for each token in the KV cache; NULL if its type is unknown.
-- @column tensor_bytes           BIGINT[]  Bytes per row of each activation that it reads or writes in one layer.
-- @column attention_window       BIGINT    Tokens that its attention sees at most; NULL without a limit.
-- @column experts                BIGINT    Experts of the model in a layer, of which a row uses top_k; NULL unless it is a product of experts.
-- @column top_k                  BIGINT    Experts that a row uses; NULL unless it is a product of experts.
WITH held AS (
    SELECT rank, role, layer, MAX(kv_bytes) AS kv_bytes, arg_max(step_id, kv_bytes) AS step_id
    FROM cost
    GROUP BY rank, role, layer
),
-- The type of the KV cache follows from what its writing costs.
element AS (
    SELECT
        held.rank,
        MAX(held.kv_bytes / (model_part.kv_written_elements * step_tokens.tokens)) AS kv_bytes
    FROM held
    INNER JOIN layout ON held.rank = layout.rank
    INNER JOIN model_part
        ON held.role = model_part.role AND held.layer = model_part.layer AND layout.tp_size = model_part.tp
    INNER JOIN step_tokens ON held.step_id = step_tokens.step_id
    WHERE held.role = 'kv_write' AND model_part.kv_written_elements * step_tokens.tokens > 0
    GROUP BY held.rank
)
SELECT
    held.rank, part.tp, part.role, part.formula, part.dtype, part.rows_of,
    COUNT(*) AS layers,
    part.flops_per_row, part.context_pair_flops, part.generation_pair_flops, part.weight_bytes,
    part.gathered_bytes
    + CASE WHEN part.kv_written_elements > 0 THEN part.kv_written_elements * element.kv_bytes ELSE 0 END AS row_bytes,
    CASE WHEN part.kv_read_elements > 0 THEN part.kv_read_elements * element.kv_bytes ELSE 0 END AS kv_bytes,
    part.tensor_bytes, part.attention_window, part.experts, part.top_k
FROM held
INNER JOIN model_part AS part ON held.role = part.role AND held.layer IS NOT DISTINCT FROM part.layer
LEFT JOIN rank_model ON held.rank = rank_model.rank
LEFT JOIN element ON held.rank = element.rank
-- Only the first stage looks tokens up.
WHERE part.role != 'embed' OR COALESCE(rank_model.first_layer, 0) = 0
GROUP BY ALL
ORDER BY held.rank, part.tp, part.role, layers
