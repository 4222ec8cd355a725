-- The floor of each role in each case and class, and the time that is attainable: at the best shares of the peaks that the recording reaches; for query whatif.
--
-- Parts are those of the model in each case and class; roofs have the peaks.
-- @kind   table macro
-- @scope  run
-- @needs  class_time
CREATE OR REPLACE MACRO attainable_time(parts, roofs) AS TABLE
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
),
-- How long the FLOPs and bytes of a role take at the peaks; NULL if either is unknown.
work AS MATERIALIZED (
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
),
-- The best share of each peak that a product of the recording reaches: what more work would get.
reached AS (
    SELECT
        COALESCE(memory, compute) AS memory,
        COALESCE(compute, memory) AS compute
    FROM (
        SELECT
            LEAST(MAX(work.memory_ns / class_time.ns) FILTER (work.memory_ns >= work.flop_ns), 1) AS memory,
            LEAST(MAX(work.flop_ns / class_time.ns) FILTER (work.memory_ns < work.flop_ns), 1) AS compute
        FROM work
        INNER JOIN class_time
            ON work.id = class_time.class_id AND work.role = class_time.role AND class_time.part = 'computing'
        WHERE NOT work.is_case AND work.formula = 'product' AND class_time.ns > 0
    )
)
SELECT
    work.is_case,
    work.id,
    work.role,
    work.formula,
    work.row_count,
    GREATEST(work.flop_ns, work.memory_ns) AS floor_ns,
    GREATEST(work.flop_ns / reached.compute, work.memory_ns / reached.memory) AS ns,
    work.flop_ns / reached.compute > work.memory_ns / reached.memory AS is_compute
FROM work
CROSS JOIN reached
WHERE work.flop_ns IS NOT NULL AND work.memory_ns IS NOT NULL
