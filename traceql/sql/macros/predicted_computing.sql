-- Computing of each case, by role: as measured, as products of its shape, or as recorded sizes with fewer and more rows suggest; for query whatif.
--
-- Parts are those of the model in each case and class; roofs have the peaks.
-- @kind   table macro
-- @scope  run
-- @needs  cost, cost_formula, measured_device, step_class_time
CREATE OR REPLACE MACRO predicted_computing(cases, classes, recording, parts, roofs) AS TABLE
WITH case_size AS (FROM query_table(cases)),
class AS (FROM query_table(classes)),
recorded AS (FROM query_table(recording)),
sized AS (FROM query_table(parts)),
roof AS (FROM query_table(roofs)),
counted AS (
    SELECT
        sized.is_case, sized.id, sized.role, sized.formula, sized.row_count,
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
        is_case, id, role,
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
            LEAST(MAX(work.memory_ns / step_class_time.ns) FILTER (work.memory_ns >= work.flop_ns), 1) AS memory,
            LEAST(MAX(work.flop_ns / step_class_time.ns) FILTER (work.memory_ns < work.flop_ns), 1) AS compute
        FROM work
        INNER JOIN step_class_time
            ON work.id = step_class_time.class_id AND work.role = step_class_time.role AND step_class_time.part = 'computing'
        WHERE NOT work.is_case AND work.formula = 'product' AND step_class_time.ns > 0
    )
),
-- The floor of each role, and the time that is attainable: at the best shares of the peaks that the recording
-- reaches.
attainable AS MATERIALIZED (
    SELECT
        work.is_case, work.id, work.role, work.formula, work.row_count,
        GREATEST(work.flop_ns, work.memory_ns) AS floor_ns,
        GREATEST(work.flop_ns / reached.compute, work.memory_ns / reached.memory) AS ns,
        work.flop_ns / reached.compute > work.memory_ns / reached.memory AS is_compute
    FROM work
    CROSS JOIN reached
    WHERE work.flop_ns IS NOT NULL AND work.memory_ns IS NOT NULL
),
-- What the roles of each class took above (memory, fixed) or relative to (compute) the attainable time.
point AS MATERIALIZED (
    SELECT
        step_class_time.class_id, step_class_time.role, class.is_of_phase, class.steps,
        class.in_graph, class.executed_tokens,
        COALESCE(attainable.formula IN ('product', 'experts'), FALSE) AS is_product,
        COALESCE(attainable.is_compute, FALSE) AS is_compute,
        COALESCE(attainable.row_count, class.executed_tokens) AS row_count,
        step_class_time.ns - COALESCE(attainable.ns, 0) AS above_ns,
        step_class_time.ns / NULLIF(attainable.ns, 0) AS ratio
    FROM step_class_time
    INNER JOIN class USING (class_id)
    LEFT JOIN attainable
        ON step_class_time.class_id = attainable.id AND step_class_time.role = attainable.role AND NOT attainable.is_case
    WHERE
        step_class_time.part = 'computing'
        AND (
            attainable.ns IS NOT NULL
            OR step_class_time.role NOT IN (SELECT UNNEST(roles) FROM cost_formula)
            OR step_class_time.role IS NULL
        )
),
product AS (
    SELECT device_name, found.*
    FROM (
        SELECT
            device_name,
            UNNEST(from_json(document -> '$.products', '[{
                "dtype": "VARCHAR", "m": "BIGINT", "k": "BIGINT", "n": "BIGINT", "ns": "DOUBLE", "role": "VARCHAR"
            }]')) AS found
        FROM measured_device
    )
),
-- Between two measured numbers of rows, a product takes a straight line over rows: it is nearly constant
-- where weights have to be read, and proportional to rows where FLOPs count. Of more rows than were
-- measured (is_beyond), it is the time of the most that were: they take no less.
curve AS (
    SELECT
        device_name, role, dtype,
        2 * k * n AS flops_per_row,
        m AS from_rows,
        LEAD(m) OVER larger AS to_rows,
        ns,
        COALESCE((LEAD(ns) OVER larger - ns) / (LEAD(m) OVER larger - m), 0) AS ns_per_row
    FROM product
    WHERE role IS NOT NULL
    WINDOW larger AS (PARTITION BY device_name, role, dtype, k, n ORDER BY m)
),
shaped AS (
    SELECT
        situation.is_case, situation.id, situation.role,
        curve.to_rows IS NULL AND situation.row_count > curve.from_rows AS is_beyond,
        situation.layers * (curve.ns + curve.ns_per_row * (situation.row_count - curve.from_rows)) AS ns
    FROM sized AS situation
    CROSS JOIN recorded
    LEFT JOIN curve
        ON recorded.device_name = curve.device_name
        AND situation.role = curve.role
        AND situation.dtype = curve.dtype
        AND situation.flops_per_row = curve.flops_per_row
        AND situation.row_count >= curve.from_rows
        AND situation.row_count < COALESCE(curve.to_rows, 1e18)
    WHERE situation.formula = 'product' AND NOT situation.is_asked
),
-- How long products take as measured at exactly their shapes, in all layers together.
product_ns AS MATERIALIZED (
    SELECT
        is_case, id, role,
        SUM(ns ORDER BY ns) AS ns,
        BOOL_OR(is_beyond) AS is_beyond
    FROM shaped
    GROUP BY is_case, id, role
    HAVING COUNT(*) = COUNT(ns)
),
asked_part AS (
    SELECT
        case_size.case_id, case_size.own_class_id, case_size.base_id, computing.role,
        computing.ns AS measured_ns,
        attainable.ns AS attainable_ns,
        attainable.floor_ns, attainable.is_compute, attainable.formula,
        COALESCE(attainable.row_count, case_size.executed_tokens) AS row_count,
        computing.role IS NULL OR computing.role NOT IN (SELECT UNNEST(roles) FROM cost_formula) AS is_fixed,
        (
            case_size.case_id = -1
            AND case_size.tp = recorded.tp_size
            AND NOT case_size.is_asked
            AND case_size.executed_tokens = base.executed_tokens
            AND case_size.kv_tokens IS NOT DISTINCT FROM base.kv_tokens
        ) AS is_same
    FROM case_size
    CROSS JOIN recorded
    INNER JOIN class AS base ON case_size.base_id = base.class_id
    INNER JOIN step_class_time AS computing
        ON case_size.base_id = computing.class_id AND computing.part = 'computing'
    LEFT JOIN attainable
        ON case_size.case_id = attainable.id AND computing.role = attainable.role AND attainable.is_case
),
-- Roles whose work is unknown for another reason than the sizes of a step: they have no floor.
unknown_work AS (
    SELECT cost.role, MIN(cost.missing) AS missing
    FROM cost
    INNER JOIN recorded ON cost.rank = recorded.rank
    WHERE cost.missing NOT IN ('tokens of the step', 'KV lengths', 'KV lengths within the attention window')
    GROUP BY cost.role
),
-- Classes of as many rows are averaged by their steps; the base counts for its own number of rows.
near AS (
    SELECT
        asked_part.case_id, asked_part.role, point.row_count, point.is_compute,
        BOOL_OR(point.class_id = asked_part.base_id) AS has_base,
        COALESCE(
            ANY_VALUE(point.above_ns) FILTER (point.class_id = asked_part.base_id),
            SUM(point.above_ns * point.steps ORDER BY point.above_ns * point.steps) / SUM(point.steps)
        ) AS above_ns,
        COALESCE(
            ANY_VALUE(point.ratio) FILTER (point.class_id = asked_part.base_id),
            SUM(point.ratio * point.steps ORDER BY point.ratio * point.steps)
            / SUM(point.steps) FILTER (point.ratio IS NOT NULL)
        ) AS ratio
    FROM asked_part
    INNER JOIN point
        ON asked_part.role IS NOT DISTINCT FROM point.role
        AND asked_part.own_class_id IS DISTINCT FROM point.class_id
        AND (point.is_of_phase OR point.is_product)
    GROUP BY asked_part.case_id, asked_part.role, point.row_count, point.is_compute
),
neighbour AS (
    SELECT
        asked_part.case_id, asked_part.role,
        arg_max(near, near.row_count) FILTER (near.row_count <= asked_part.row_count AND near.is_compute = is_like) AS low,
        arg_min(near, near.row_count) FILTER (near.row_count >= asked_part.row_count AND near.is_compute = is_like) AS high,
        arg_min(near, (ABS(ln(near.row_count / asked_part.row_count)), near.row_count, near.is_compute)) AS other
    FROM (SELECT *, COALESCE(is_compute, FALSE) AS is_like FROM asked_part) AS asked_part
    INNER JOIN near
        ON asked_part.case_id = near.case_id AND asked_part.role IS NOT DISTINCT FROM near.role
    WHERE near.row_count > 0 AND asked_part.row_count > 0
    GROUP BY asked_part.case_id, asked_part.role
),
placed AS (
    SELECT
        asked_part.*,
        COALESCE(neighbour.low, neighbour.high, neighbour.other) AS low,
        COALESCE(neighbour.high, neighbour.low, neighbour.other) AS high,
        neighbour.low IS NULL AND neighbour.high IS NULL AS is_unlike
    FROM asked_part
    LEFT JOIN neighbour
        ON asked_part.case_id = neighbour.case_id AND asked_part.role IS NOT DISTINCT FROM neighbour.role
),
weighed AS (
    SELECT
        placed.*,
        CASE
            WHEN placed.low.row_count = placed.high.row_count THEN 0
            ELSE ln(placed.row_count / placed.low.row_count) / ln(placed.high.row_count / placed.low.row_count)
        END AS share,
        -- As a product; if it is beyond the measured rows, as one of fewer rows, which takes no more.
        asked_product.is_beyond,
        asked_product.ns * CASE
            WHEN asked_product.is_beyond AND base_product.is_beyond THEN NULL
            WHEN base_product.is_beyond THEN 1
            ELSE COALESCE(placed.measured_ns / base_product.ns, 1)
        END AS as_product_ns
    FROM placed
    LEFT JOIN product_ns AS asked_product
        ON asked_product.is_case AND placed.case_id = asked_product.id AND placed.role = asked_product.role
    LEFT JOIN product_ns AS base_product
        ON NOT base_product.is_case AND placed.base_id = base_product.id AND placed.role = base_product.role
),
computed AS (
    SELECT
        *,
        CASE
            WHEN is_same THEN measured_ns
            WHEN NOT is_beyond THEN as_product_ns
            WHEN low IS NULL OR (attainable_ns IS NULL AND NOT is_fixed) THEN NULL
            -- Faster than attainable: it does less than expected, such as fewer distinct experts.
            WHEN (low.is_compute OR low.above_ns < 0) AND NOT is_fixed
                THEN GREATEST(attainable_ns * (low.ratio + (high.ratio - low.ratio) * share), as_product_ns)
            ELSE GREATEST(
                COALESCE(attainable_ns, 0) + low.above_ns + (high.above_ns - low.above_ns) * share, as_product_ns, 0
            )
        END AS predicted_ns,
        CASE
            WHEN is_same THEN 'as measured'
            WHEN NOT is_beyond THEN 'measured product'
            WHEN NOT is_fixed AND attainable_ns IS NULL THEN 'unknown'
            WHEN is_fixed AND low.has_base AND high.has_base THEN 'as measured'
            WHEN is_fixed THEN 'recorded sizes'
            WHEN formula NOT IN ('product', 'experts', 'attention', 'latent_attention') THEN 'fixed cost + bytes'
            WHEN low.is_compute OR low.above_ns < 0 THEN 'roofline x measured ratio'
            ELSE 'roofline + measured rest'
        END AS how
    FROM weighed
)
SELECT
    computed.case_id,
    COALESCE(computed.role, 'other') AS part,
    'computing' AS kind,
    1 AS place,
    computed.measured_ns, computed.predicted_ns,
    CASE WHEN unknown_work.role IS NULL THEN computed.floor_ns END AS floor_ns,
    computed.how,
    NULLIF(concat_ws(
        '; ',
        'no floor, unknown: ' || unknown_work.missing,
        CASE
            WHEN computed.how NOT IN ('roofline + measured rest', 'roofline x measured ratio') THEN NULL
            WHEN unknown_work.role IS NULL AND computed.predicted_ns < 0.99 * computed.floor_ns
                THEN 'below its floor: reads less than expected'
            WHEN computed.is_unlike
                THEN 'no recorded step has it ' || CASE WHEN computed.is_compute THEN 'compute' ELSE 'memory' END || '-bound'
            WHEN computed.row_count > 2 * computed.high.row_count
                THEN format('{:.0f} rows, recorded up to {:.0f}', computed.row_count, computed.high.row_count)
            WHEN 2 * computed.row_count < computed.low.row_count
                THEN format('{:.0f} rows, recorded from {:.0f}', computed.row_count, computed.low.row_count)
        END
    ), '') AS warning
FROM computed
LEFT JOIN unknown_work ON computed.floor_ns IS NOT NULL AND computed.role = unknown_work.role
