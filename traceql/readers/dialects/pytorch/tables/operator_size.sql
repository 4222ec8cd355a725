-- One row per rank, layer, role and formula whose work follows from the recorded shapes of its operators.
--
-- A role whose sizes differ from step to step has no row. Nor has one, products excepted, with an operator that is
-- not known, unless it is a small one beside attention, embedding or the sum of experts.
-- @kind   scratch
-- @scope  run
-- @needs  event_kind, kernel, layout, shaped_operator, slice, step_tokens, symbol
-- @empty_unless shaped_operator
-- @column rank                 BIGINT    Rank.
-- @column layer                BIGINT    Model layer; NULL outside layers.
-- @column role                 VARCHAR   Part of the model (kernel.role).
-- @column formula              VARCHAR   Formula of its cost (cost_formula.formula).
-- @column flops_per_row        BIGINT    FLOPs for each row; NULL unless it is a product, or one of experts.
-- @column weight_bytes         DOUBLE    Bytes of the matrices, of all experts, and of their scales; NULL as flops_per_row.
-- @column tensor_bytes         BIGINT[]  Bytes per row of each activation that it reads or writes. A product writes elements of 2 bytes.
-- @column dtype                VARCHAR   Whose peak its FLOPs count against: bf16, fp8 or int8; NULL for other types.
-- @column experts              BIGINT    Number of experts; NULL unless it is a product of experts.
-- @column top_k                BIGINT    Experts that a token uses; NULL unless it is a product of experts.
-- @column pair_flops           BIGINT    FLOPs for each pair of a query and a key; NULL unless it is attention.
-- @column kv_read_elements     BIGINT    Elements of the KV cache that are read for each token in it; NULL of products.
-- @column kv_written_elements  BIGINT    Elements of the KV cache that are written for each row; NULL of products.
-- @column gathered_bytes       BIGINT    Bytes of weights that each row reads; NULL of products.
-- @column attention_window     BIGINT    Tokens that its attention sees at most; NULL without a limit.
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
    ('aten::index_select', 'gather', [1], 1),
    ('aten::mm', 'product', NULL, NULL),
    ('aten::addmm', 'product', NULL, NULL),
    ('aten::_scaled_mm', 'product', NULL, NULL),
    ('_C::cutlass_scaled_mm', 'product', NULL, NULL)
),
called AS MATERIALIZED (
    SELECT DISTINCT
        kernel.rank, kernel.step_id, kernel.pass, kernel.layer, kernel.role,
        kernel.category = 'gemm' AS is_product,
        slice.external_id
    FROM kernel
    INNER JOIN slice USING (id)
    WHERE NOT kernel.in_graph AND kernel.role IS NOT NULL AND kernel.rank IN (SELECT rank FROM shaped_operator)
),
-- Products: the matrix is the last of two inputs that are multiplied.
multiplied AS (
    SELECT
        called.rank, called.step_id, called.pass, called.layer, called.role, shaped.name,
        CASE WHEN shaped.name IN ('aten::mm', 'aten::_scaled_mm') THEN 1 ELSE 2 END AS place,
        shaped.dims, shaped.types
    FROM called
    INNER JOIN shaped_operator AS shaped ON called.rank = shaped.rank AND called.external_id = shaped.external_id
    INNER JOIN known ON shaped.name = known.name AND known.formula = 'product'
    WHERE called.is_product
),
typed_matrix AS (
    SELECT
        *,
        TRY_CAST(dims[place + 1] AS BIGINT[]) AS matrix,
        -- Scaled products: the scales of the matrix, of 4 bytes each.
        CASE WHEN name LIKE '%scaled_mm' THEN list_product(TRY_CAST(dims[place + 3] AS BIGINT[])) ELSE 0 END AS scales,
        CASE
            WHEN types[place + 1] ILIKE '%float8%' THEN 'fp8'
            WHEN types[place + 1] IN ('signed char', 'char', 'c10::Char') THEN 'int8'
            WHEN types[place + 1] ILIKE '%bfloat16%' OR types[place + 1] ILIKE '%half%' THEN 'bf16'
        END AS dtype
    FROM multiplied
),
matrix AS (
    SELECT *, matrix[1] AS inner_size, matrix[2] AS outer_size, CASE dtype WHEN 'bf16' THEN 2 ELSE 1 END AS element_bytes
    FROM typed_matrix
    WHERE len(matrix) = 2 AND dtype IS NOT NULL
),
product_of_step AS (
    SELECT
        rank, layer, role,
        CAST(SUM(2 * inner_size * outer_size) AS BIGINT) AS flops_per_row,
        CAST(SUM(inner_size * outer_size * element_bytes + 4 * COALESCE(scales, 0)) AS DOUBLE) AS weight_bytes,
        list_concat(
            list(inner_size * element_bytes ORDER BY inner_size, outer_size),
            list(2 * outer_size ORDER BY inner_size, outer_size)
        ) AS tensor_bytes,
        MIN(dtype) AS dtype,
        COUNT(DISTINCT dtype) AS types
    FROM matrix
    GROUP BY rank, step_id, pass, layer, role
),
product AS (
    SELECT
        rank, layer, role,
        'product' AS formula,
        MIN(flops_per_row) AS flops_per_row,
        MIN(weight_bytes) AS weight_bytes,
        ANY_VALUE(tensor_bytes) AS tensor_bytes,
        MIN(dtype) AS dtype
    FROM product_of_step
    GROUP BY rank, layer, role
    HAVING COUNT(DISTINCT weight_bytes) = 1 AND COUNT(DISTINCT dtype) = 1 AND MAX(types) = 1
),
-- Products of experts have no shapes of their own: the router has the hidden size, the choice of
-- experts how many there are, and the activation between the products how wide one is. With several
-- ranks, shapes do not tell whether a rank has some of the experts or a share of each. Kernels of other
-- names may have other weights than those that are as wide as the activations.
plain_layer AS (
    SELECT kernel.rank, kernel.layer
    FROM kernel
    INNER JOIN layout ON kernel.rank = layout.rank AND layout.tp_size = 1 AND layout.dp_size = 1
    LEFT JOIN symbol ON kernel.symbol = symbol.letter
    WHERE
        kernel.role IN ('experts_gate_up', 'experts_down')
        AND kernel.layer IS NOT NULL
        AND kernel.rank IN (SELECT rank FROM shaped_operator)
    GROUP BY kernel.rank, kernel.layer
    HAVING BOOL_AND(kernel.name = 'fused_moe_kernel' AND COALESCE(symbol.name != 'quantize', TRUE))
),
beside_experts AS (
    SELECT DISTINCT
        called.rank, called.step_id, called.layer, called.external_id, shaped.name,
        TRY_CAST(shaped.dims[1] AS BIGINT[]) AS output,
        TRY_CAST(shaped.dims[4] AS BIGINT[]) AS scores,
        shaped.types[1] AS output_type
    FROM called
    INNER JOIN plain_layer ON called.rank = plain_layer.rank AND called.layer = plain_layer.layer
    INNER JOIN shaped_operator AS shaped ON called.rank = shaped.rank AND called.external_id = shaped.external_id
    WHERE called.role IN ('topk', 'act') AND shaped.name IN ('_moe_C::topk_softmax', '_C::silu_and_mul')
),
expert_layer AS (
    SELECT
        choice.rank, choice.layer,
        MIN(choice.scores[2]) AS experts,
        MIN(choice.output[2]) AS top_k,
        MIN(activation.output[2]) AS ffn
    FROM beside_experts AS choice
    INNER JOIN beside_experts AS activation
        ON choice.rank = activation.rank
        AND choice.step_id = activation.step_id
        AND choice.layer = activation.layer
        AND activation.output[1] = choice.output[1] * choice.output[2]
    WHERE
        choice.name = '_moe_C::topk_softmax'
        AND activation.name = '_C::silu_and_mul'
        AND regexp_matches(activation.output_type, '(?i)bfloat16|half')
    GROUP BY choice.rank, choice.layer
    HAVING
        COUNT(DISTINCT choice.scores[2]) = 1
        AND COUNT(DISTINCT choice.output[2]) = 1
        AND COUNT(DISTINCT activation.output[2]) = 1
),
expert_size AS (
    SELECT expert_layer.*, router.flops_per_row // (2 * expert_layer.experts) AS hidden
    FROM expert_layer
    INNER JOIN product AS router
        ON expert_layer.rank = router.rank AND expert_layer.layer = router.layer AND router.role = 'router'
    WHERE router.flops_per_row % (2 * expert_layer.experts) = 0
),
expert_matrix AS (
    SELECT *, 'experts_gate_up' AS role, hidden AS inner_size, 2 * ffn AS outer_size FROM expert_size
    UNION ALL
    SELECT *, 'experts_down' AS role, ffn AS inner_size, hidden AS outer_size FROM expert_size
),
experts AS (
    SELECT
        rank, layer, role,
        'experts' AS formula,
        CAST(2 * top_k * inner_size * outer_size AS BIGINT) AS flops_per_row,
        CAST(2 * experts * inner_size * outer_size AS DOUBLE) AS weight_bytes,
        [2 * top_k * inner_size, 2 * top_k * outer_size] AS tensor_bytes,
        'bf16' AS dtype,
        experts, top_k
    FROM expert_matrix
),
-- All other roles.
operator AS (
    SELECT
        part.rank, part.step_id, part.layer, part.role, known.formula, known.places, known.times,
        COALESCE(step_tokens.executed_tokens, step_tokens.tokens) AS row_count,
        shaped.dims, shaped.types, shaped.given
    FROM (
        SELECT DISTINCT rank, step_id, layer, role, external_id
        FROM called
        WHERE
            role IN (
                'input_norm', 'post_attn_norm', 'pre_mlp_norm', 'post_mlp_norm', 'final_norm', 'qk_norm', 'rope', 'act',
                'topk', 'moe_sum', 'kv_write', 'attention', 'embed'
            )
    ) AS part
    INNER JOIN step_tokens USING (rank, step_id)
    INNER JOIN slice ON part.rank = slice.rank AND part.external_id = slice.external_id
    INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat AND event_kind.kind = 'operator'
    LEFT JOIN known ON slice.name = known.name AND known.formula != 'product'
    LEFT JOIN shaped_operator AS shaped
        ON slice.rank = shaped.rank
        AND slice.external_id = shaped.external_id
        AND known.name = shaped.name
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
        rank, step_id, layer, role,
        TRY_CAST(dims[1] AS BIGINT[]) AS queries,
        TRY_CAST(dims[2] AS BIGINT[]) AS keys,
        TRY_CAST(dims[3] AS BIGINT[]) AS vals,
        TRY_CAST(given[26] AS BIGINT) AS window_before
    FROM operator
    WHERE formula = 'attention' AND len(TRY_CAST(dims[6] AS BIGINT[])) = 0
),
attended AS (
    SELECT
        rank, step_id, layer, role,
        2 * queries[2] * (queries[3] + vals[4]) AS pair_flops,
        keys[3] * (keys[4] + vals[4]) AS kv_read_elements,
        CASE WHEN window_before >= 0 THEN window_before + 1 END AS attention_window
    FROM attending
    WHERE len(queries) = 3 AND len(keys) = 4 AND len(vals) = 4 AND window_before IS NOT NULL
),
other_of_step AS (
    SELECT
        rank, step_id, layer, role,
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
    SELECT
        other_of_step.*, attended.pair_flops,
        COALESCE(attended.kv_read_elements, 0) AS kv_read_elements,
        attended.attention_window
    FROM other_of_step
    LEFT JOIN attended
        ON other_of_step.rank = attended.rank
        AND other_of_step.step_id = attended.step_id
        AND other_of_step.role = attended.role
        AND other_of_step.layer IS NOT DISTINCT FROM attended.layer
    WHERE other_of_step.formula != 'attention' OR attended.pair_flops IS NOT NULL
),
other AS (
    SELECT
        sized.rank, sized.layer, sized.role,
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
)
FROM product
UNION ALL BY NAME
FROM experts
UNION ALL BY NAME
FROM other
