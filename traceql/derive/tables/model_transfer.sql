-- One row per rank and role that tensor parallelism would add to a rank that has none: what it would send.
--
-- vLLM sums the activations of a token after the embedding, attention and the MLP of each layer, and
-- gathers the logits.
-- @scope  run
-- @needs  layout, model_part, rank_part
-- @column rank       BIGINT   Rank.
-- @column role       VARCHAR  Part of the model; as in kernel.
-- @column op         VARCHAR  all_reduce or all_gather.
-- @column rows_of    VARCHAR  What it sends one row for: tokens, or logit_rows (see step_tokens).
-- @column calls      BIGINT   Operations in a step.
-- @column row_bytes  BIGINT   Bytes of the whole buffer for each row.
WITH embedding AS (
    SELECT MAX(gathered_bytes) AS row_bytes FROM model_part WHERE role = 'embed'
),
own AS (
    SELECT rank_part.*, embedding.row_bytes AS embedded_bytes
    FROM rank_part
    INNER JOIN layout
        ON rank_part.rank = layout.rank AND rank_part.tp = layout.tp_size AND layout.tp_size = 1
    CROSS JOIN embedding
)
SELECT
    rank,
    CASE role WHEN 'o_proj' THEN 'attn_allreduce' ELSE 'mlp_allreduce' END AS role,
    'all_reduce' AS op,
    'tokens' AS rows_of,
    CAST(SUM(layers) AS BIGINT) AS calls,
    MAX(embedded_bytes) AS row_bytes
FROM own
WHERE role IN ('o_proj', 'down_proj', 'experts_down')
GROUP BY ALL
UNION ALL
SELECT layout.rank, 'embed', 'all_reduce', 'tokens', 1, embedding.row_bytes
FROM layout
CROSS JOIN embedding
WHERE layout.tp_size = 1 AND COALESCE(layout.pp_rank, 0) = 0 AND embedding.row_bytes IS NOT NULL
UNION ALL
SELECT rank, 'logits_gather', 'all_gather', 'logit_rows', 1, tensor_bytes[2]
FROM own
WHERE role = 'lm_head'
ORDER BY ALL
