-- How long the FLOPs and bytes of each role take in each case and class at the peaks of the GPU; for query whatif.
--
-- NULL if either is unknown. Parts are those of sized_part; roofs have the peaks.
-- @kind   table macro
-- @scope  run
CREATE OR REPLACE MACRO role_work(parts, roofs) AS TABLE
WITH sized AS (
    FROM query_table(parts)
),
roof AS (
    FROM query_table(roofs)
),
counted AS (
    SELECT
        sized.is_case,
        sized.id,
        sized.role,
        sized.formula,
        sized.row_count,
        sized.layers * (
            sized.flops_per_row * sized.row_count
            + CASE
                WHEN sized.attends
                    THEN sized.context_pair_flops * sized.context_pairs + sized.generation_pair_flops * sized.generation_pairs
                ELSE 0
            END
        ) / (roof.tflops * 1000) AS flop_ns,
        sized.layers * (
            sized.weight_bytes * CASE
                WHEN sized.experts IS NULL THEN 1.0
                ELSE 1 - pow(1 - sized.top_k / sized.experts, sized.row_count)
            END
            + sized.row_bytes * sized.row_count
            + CASE WHEN sized.kv_bytes = 0 THEN 0 ELSE sized.kv_bytes * sized.kv_tokens END
            + CASE
                -- Small kernels: their data may come from the cache, but not faster than at a bounded rate.
                WHEN sized.formula IN ('activations', 'kv_write', 'gather') THEN COALESCE(list_sum(sized.tensor_bytes), 0) * sized.row_count
                ELSE COALESCE(list_sum(list_filter(
                    sized.tensor_bytes, lambda one: one * sized.row_count > roof.l2_bytes
                )), 0) * sized.row_count
            END
        ) / roof.hbm_gbps AS memory_ns
    FROM sized
    LEFT JOIN roof ON sized.is_asked = roof.is_asked AND sized.dtype = roof.dtype
    WHERE sized.attention_window IS NULL OR NOT sized.attends OR sized.kv_tokens <= sized.attention_window
)
SELECT
    is_case,
    id,
    role,
    MAX(formula) AS formula,
    MAX(row_count) AS row_count,
    CASE WHEN COUNT(*) = COUNT(flop_ns) THEN SUM(flop_ns ORDER BY flop_ns) END AS flop_ns,
    CASE WHEN COUNT(*) = COUNT(memory_ns) THEN SUM(memory_ns ORDER BY memory_ns) END AS memory_ns
FROM counted
GROUP BY is_case, id, role
