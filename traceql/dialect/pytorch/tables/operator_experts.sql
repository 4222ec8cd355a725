-- One row per rank, layer and role of products of experts whose sizes follow from the recorded shapes around them.
--
-- The products have no shapes of their own: the router tells the hidden size, the choice of experts
-- how many there are, and the activation between the products how wide one is. With several ranks,
-- shapes do not tell whether a rank has some of the experts or a share of each, and there is no row.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, layout, operator_product, shaped_operator, slice, symbol
-- @column rank           BIGINT   Rank.
-- @column layer          BIGINT   Model layer.
-- @column role           VARCHAR  experts_gate_up or experts_down.
-- @column flops_per_row  BIGINT   FLOPs for each token.
-- @column weight_bytes   DOUBLE   Bytes of the weights of all experts.
-- @column experts        BIGINT   Number of experts.
-- @column top_k          BIGINT   Experts that a token uses.
-- @column tensor_bytes   BIGINT[] Bytes per token of the input and of the output.
-- @column dtype          VARCHAR  Whose peak the FLOPs count against: bf16.
WITH alone AS (
    SELECT rank
    FROM layout
    WHERE tp_size = 1 AND dp_size = 1 AND rank IN (SELECT rank FROM shaped_operator)
),
-- Kernels of other names may have other weights than those that are as wide as the activations.
plain AS (
    SELECT kernel.rank, kernel.layer
    FROM kernel
    INNER JOIN alone ON kernel.rank = alone.rank
    LEFT JOIN symbol ON kernel.symbol = symbol.letter
    WHERE kernel.role IN ('experts_gate_up', 'experts_down') AND kernel.layer IS NOT NULL
    GROUP BY kernel.rank, kernel.layer
    HAVING BOOL_AND(kernel.name = 'fused_moe_kernel' AND COALESCE(symbol.name != 'quantize', TRUE))
),
called AS (
    SELECT DISTINCT kernel.rank, kernel.step_id, kernel.layer, slice.external_id
    FROM kernel
    INNER JOIN slice USING (id)
    INNER JOIN plain ON kernel.rank = plain.rank AND kernel.layer = plain.layer
    WHERE NOT kernel.in_graph AND kernel.role IN ('topk', 'act')
),
operator AS (
    SELECT
        called.rank,
        called.step_id,
        called.layer,
        shaped_operator.name,
        TRY_CAST(shaped_operator.dims[1] AS BIGINT[]) AS output,
        TRY_CAST(shaped_operator.dims[4] AS BIGINT[]) AS scores,
        shaped_operator.types[1] AS output_type
    FROM called
    INNER JOIN shaped_operator USING (rank, external_id)
    WHERE shaped_operator.name IN ('_moe_C::topk_softmax', '_C::silu_and_mul')
),
layer_size AS (
    SELECT
        choice.rank,
        choice.layer,
        MIN(choice.scores[2]) AS experts,
        MIN(choice.output[2]) AS top_k,
        MIN(activation.output[2]) AS ffn
    FROM operator AS choice
    INNER JOIN operator AS activation
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
product AS (
    SELECT
        layer_size.*,
        router.flops_per_row // (2 * layer_size.experts) AS hidden
    FROM layer_size
    INNER JOIN operator_product AS router
        ON layer_size.rank = router.rank AND layer_size.layer = router.layer AND router.role = 'router'
    WHERE router.flops_per_row % (2 * layer_size.experts) = 0
),
matrix AS (
    SELECT *, 'experts_gate_up' AS role, hidden AS inner_size, 2 * ffn AS outer_size FROM product
    UNION ALL
    SELECT *, 'experts_down' AS role, ffn AS inner_size, hidden AS outer_size FROM product
)
SELECT
    rank,
    layer,
    role,
    CAST(2 * top_k * inner_size * outer_size AS BIGINT) AS flops_per_row,
    CAST(2 * experts * inner_size * outer_size AS DOUBLE) AS weight_bytes,
    experts,
    top_k,
    [2 * top_k * inner_size, 2 * top_k * outer_size] AS tensor_bytes,
    'bf16' AS dtype
FROM matrix
