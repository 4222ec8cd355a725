-- Computing of each case, by role: as measured, as products of its shape, or as recorded sizes with fewer and more rows suggest; for query whatif.
--
-- Parts are those of sized_part, and attainables of attainable_time.
-- @kind   table macro
-- @scope  run
-- @needs  class_time, cost_formula, product_time, recorded_point
CREATE OR REPLACE MACRO predicted_computing(cases, classes, recording, parts, attainables) AS TABLE
WITH case_size AS (
    FROM query_table(cases)
),
class AS (
    FROM query_table(classes)
),
recorded AS (
    FROM query_table(recording)
),
attainable AS (
    FROM query_table(attainables)
),
point AS MATERIALIZED (
    FROM recorded_point(classes, attainables)
),
product_ns AS MATERIALIZED (
    FROM product_time(parts, recording)
),
asked_part AS (
    SELECT
        case_size.case_id,
        case_size.own_class_id,
        case_size.base_id,
        computing.role,
        computing.ns AS measured_ns,
        attainable.ns AS attainable_ns,
        attainable.floor_ns,
        attainable.is_compute,
        attainable.formula,
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
    INNER JOIN class_time AS computing
        ON case_size.base_id = computing.class_id AND computing.part = 'computing'
    LEFT JOIN attainable
        ON case_size.case_id = attainable.id AND computing.role = attainable.role AND attainable.is_case
),
near AS (
    SELECT
        asked_part.case_id,
        asked_part.role,
        point.row_count,
        point.is_compute,
        AVG(point.above_ns ORDER BY point.above_ns) AS above_ns,
        AVG(point.ratio ORDER BY point.ratio) AS ratio
    FROM asked_part
    INNER JOIN point
        ON asked_part.role IS NOT DISTINCT FROM point.role
        AND asked_part.own_class_id IS DISTINCT FROM point.class_id
        AND (point.is_of_phase OR point.is_product)
    GROUP BY asked_part.case_id, asked_part.role, point.row_count, point.is_compute
),
neighbour AS (
    SELECT
        asked_part.case_id,
        asked_part.role,
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
        *,
        CASE WHEN low.row_count = high.row_count THEN 0 ELSE ln(row_count / low.row_count) / ln(high.row_count / low.row_count) END
            AS share
    FROM placed
),
computed AS (
    SELECT
        weighed.*,
        CASE
            WHEN weighed.is_same THEN weighed.measured_ns
            WHEN asked_product.is_whole
                THEN asked_product.ns * CASE WHEN base_product.is_whole THEN weighed.measured_ns / base_product.ns ELSE 1 END
            WHEN weighed.low IS NULL OR (weighed.attainable_ns IS NULL AND NOT weighed.is_fixed) THEN NULL
            -- Faster than attainable: it does less than expected, such as fewer distinct experts.
            WHEN (weighed.low.is_compute OR weighed.low.above_ns < 0) AND NOT weighed.is_fixed
                THEN weighed.attainable_ns * (weighed.low.ratio + (weighed.high.ratio - weighed.low.ratio) * weighed.share)
            ELSE GREATEST(
                COALESCE(weighed.attainable_ns, 0)
                + weighed.low.above_ns + (weighed.high.above_ns - weighed.low.above_ns) * weighed.share,
                0
            )
        END AS predicted_ns,
        CASE
            WHEN weighed.is_same THEN 'as measured'
            WHEN asked_product.is_whole THEN 'measured product'
            WHEN NOT weighed.is_fixed AND weighed.attainable_ns IS NULL THEN 'unknown'
            WHEN weighed.is_fixed THEN 'as measured'
            WHEN weighed.formula NOT IN ('product', 'experts', 'attention', 'latent_attention') THEN 'fixed cost + bytes'
            WHEN weighed.low.is_compute OR weighed.low.above_ns < 0 THEN 'roofline x measured ratio'
            ELSE 'roofline + measured rest'
        END AS how
    FROM weighed
    LEFT JOIN product_ns AS asked_product
        ON asked_product.is_case AND weighed.case_id = asked_product.id AND weighed.role = asked_product.role
    LEFT JOIN product_ns AS base_product
        ON NOT base_product.is_case AND weighed.base_id = base_product.id AND weighed.role = base_product.role
)
SELECT
    case_id,
    COALESCE(role, 'other') AS part,
    'computing' AS kind,
    1 AS place,
    measured_ns,
    predicted_ns,
    floor_ns,
    how,
    CASE
        WHEN how NOT IN ('roofline + measured rest', 'roofline x measured ratio') THEN NULL
        WHEN predicted_ns < 0.99 * floor_ns THEN 'below its floor: reads less than expected'
        WHEN is_unlike THEN 'no recorded step has it ' || CASE WHEN is_compute THEN 'compute' ELSE 'memory' END || '-bound'
        WHEN row_count > 2 * high.row_count
            THEN format('{:.0f} rows, recorded up to {:.0f}', row_count, high.row_count)
        WHEN 2 * row_count < low.row_count
            THEN format('{:.0f} rows, recorded from {:.0f}', row_count, low.row_count)
    END AS warning
FROM computed
