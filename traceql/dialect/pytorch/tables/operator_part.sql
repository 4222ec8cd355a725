-- One row per rank, layer and role, products excepted, whose operators have recorded shapes that tell what it reads and writes.
--
-- A role whose sizes differ from step to step has no row, nor has one with an operator that is not known, unless it is a small one beside attention, embedding or the sum of experts.
-- @kind   scratch
-- @scope  run
-- @needs  event_kind, kernel, shaped_operator, slice, step_tokens
-- @empty_unless shaped_operator
-- @column rank                 BIGINT    Rank.
-- @column layer                BIGINT    Model layer; NULL outside layers.
-- @column role                 VARCHAR   Part of the model (kernel.role).
-- @column formula              VARCHAR   Formula of its cost (cost_formula.formula).
-- @column pair_flops           BIGINT    FLOPs for each pair of a query and a key; NULL unless it is attention.
-- @column kv_read_elements     BIGINT    Elements of the KV cache that are read for each token in it; 0 unless it is attention.
-- @column kv_written_elements  BIGINT    Elements of the KV cache that are written for each row; 0 unless it writes them.
-- @column gathered_bytes       BIGINT    Bytes of weights that each row reads; 0 unless it is the embedding.
-- @column tensor_bytes         BIGINT[]  Bytes per row of each activation that it reads or writes.
-- @column attention_window     BIGINT    Tokens that its attention sees at most; NULL without a limit.
-- @column dtype                VARCHAR   Whose peak its FLOPs count against: bf16 or fp8; NULL for other types.
WITH known (name, formula, places, times) AS (
    VALUES
    -- What is changed in place is read and written.
    ('_C::fused_add_rms_norm', 'activations', [1, 2], 2),
    ('_C::rotary_embedding', 'activations', [2, 3], 2),
    ('_C::rms_norm', 'activations', [1, 2], 1),
    ('_C::silu_and_mul', 'activations', [1, 2], 1),
    ('_C::gelu_and_mul', 'activations', [1, 2], 1),
    ('_C::gelu_tanh_and_mul', 'activations', [1, 2], 1),
    ('_moe_C::topk_softmax', 'activations', [4], 1),
    ('_moe_C::moe_sum', 'activations', [1, 2], 1),
    ('_C_cache_ops::reshape_and_cache_flash', 'kv_write', [1, 2], 1),
    ('_C_cache_ops::concat_and_cache_mla', 'kv_write', [1, 2], 1),
    ('_vllm_fa3_C::fwd', 'attention', [1, 7], 1),
    ('aten::index_select', 'gather', [1], 1)
),
called AS (
    SELECT DISTINCT kernel.rank, kernel.step_id, kernel.layer, kernel.role, slice.external_id
    FROM kernel
    INNER JOIN slice USING (id)
    WHERE
        NOT kernel.in_graph
        AND kernel.rank IN (SELECT rank FROM shaped_operator)
        AND kernel.role IN (
            'input_norm', 'post_attn_norm', 'pre_mlp_norm', 'post_mlp_norm', 'final_norm', 'qk_norm', 'rope', 'act',
            'topk', 'moe_sum', 'kv_write', 'attention', 'embed'
        )
),
operator AS (
    SELECT
        called.rank,
        called.step_id,
        called.layer,
        called.role,
        known.formula,
        known.places,
        known.times,
        COALESCE(step_tokens.executed_tokens, step_tokens.tokens) AS row_count,
        shaped_operator.dims,
        shaped_operator.types,
        shaped_operator.given
    FROM called
    INNER JOIN step_tokens USING (rank, step_id)
    INNER JOIN slice ON called.rank = slice.rank AND called.external_id = slice.external_id
    INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat AND event_kind.kind = 'operator'
    LEFT JOIN known ON slice.name = known.name
    LEFT JOIN shaped_operator
        ON slice.rank = shaped_operator.rank
        AND slice.external_id = shaped_operator.external_id
        AND known.name = shaped_operator.name
),
tensor AS (
    SELECT
        *,
        TRY_CAST(dims[place] AS BIGINT[]) AS shape,
        CASE
            WHEN types[place] ILIKE '%float8%' THEN 1
            WHEN types[place] ILIKE '%bfloat16%' OR types[place] ILIKE '%half%' THEN 2
            WHEN types[place] = 'float' THEN 4
        END AS element_bytes
    FROM (SELECT *, UNNEST(places) AS place FROM operator)
),
-- Elements of the embedding are gathered: one row of it is written for each token.
per_row AS (
    SELECT
        *,
        CASE
            WHEN formula = 'gather' THEN shape[2]
            WHEN list_product(shape) % row_count = 0 THEN CAST(list_product(shape) // row_count AS BIGINT)
        END AS elements
    FROM tensor
),
-- Attention: heads and dimensions of the queries, and of the keys and values in the paged cache.
attending AS (
    SELECT
        rank,
        step_id,
        layer,
        role,
        TRY_CAST(dims[1] AS BIGINT[]) AS queries,
        TRY_CAST(dims[2] AS BIGINT[]) AS keys,
        TRY_CAST(dims[3] AS BIGINT[]) AS vals,
        TRY_CAST(given[26] AS BIGINT) AS window_before
    FROM operator
    WHERE formula = 'attention' AND len(TRY_CAST(dims[6] AS BIGINT[])) = 0
),
attended AS (
    SELECT
        rank,
        step_id,
        layer,
        role,
        2 * queries[2] * (queries[3] + vals[4]) AS pair_flops,
        keys[3] * (keys[4] + vals[4]) AS kv_read_elements,
        CASE WHEN window_before >= 0 THEN window_before + 1 END AS attention_window
    FROM attending
    WHERE len(queries) = 3 AND len(keys) = 4 AND len(vals) = 4 AND window_before IS NOT NULL
),
of_step AS (
    SELECT
        rank,
        step_id,
        layer,
        role,
        MIN(formula) AS formula,
        list_concat(
            list(elements * element_bytes ORDER BY elements),
            list(elements * element_bytes ORDER BY elements) FILTER (times = 2)
        ) AS tensor_bytes,
        CAST(COALESCE(SUM(elements) FILTER (formula = 'kv_write'), 0) AS BIGINT) AS kv_written_elements,
        CAST(COALESCE(SUM(elements * element_bytes) FILTER (formula = 'gather'), 0) AS BIGINT) AS gathered_bytes,
        CASE MIN(element_bytes) WHEN 1 THEN 'fp8' WHEN 2 THEN 'bf16' END AS dtype
    FROM per_row
    GROUP BY rank, step_id, layer, role
    HAVING COUNT(elements * element_bytes) = COUNT(*) AND COUNT(DISTINCT formula) = 1
),
unknown AS (
    SELECT DISTINCT rank, layer, role
    FROM operator
    WHERE formula IS NULL AND role NOT IN ('attention', 'embed', 'moe_sum')
),
sized AS (
    SELECT of_step.*, attended.pair_flops, COALESCE(attended.kv_read_elements, 0) AS kv_read_elements, attended.attention_window
    FROM of_step
    LEFT JOIN attended
        ON of_step.rank = attended.rank
        AND of_step.step_id = attended.step_id
        AND of_step.role = attended.role
        AND of_step.layer IS NOT DISTINCT FROM attended.layer
    WHERE of_step.formula != 'attention' OR attended.pair_flops IS NOT NULL
)
SELECT
    sized.rank,
    sized.layer,
    sized.role,
    MIN(sized.formula) AS formula,
    MIN(sized.pair_flops) AS pair_flops,
    MIN(sized.kv_read_elements) AS kv_read_elements,
    MIN(sized.kv_written_elements) AS kv_written_elements,
    MIN(sized.gathered_bytes) AS gathered_bytes,
    MIN(sized.tensor_bytes) AS tensor_bytes,
    MIN(sized.attention_window) AS attention_window,
    MIN(sized.dtype) AS dtype
FROM sized
LEFT JOIN unknown
    ON sized.rank = unknown.rank
    AND sized.role = unknown.role
    AND sized.layer IS NOT DISTINCT FROM unknown.layer
WHERE unknown.rank IS NULL
GROUP BY sized.rank, sized.layer, sized.role
HAVING
    COUNT(DISTINCT sized.tensor_bytes) = 1
    AND COUNT(DISTINCT COALESCE(sized.pair_flops, 0)) = 1
    AND COUNT(DISTINCT COALESCE(sized.attention_window, 0)) = 1
