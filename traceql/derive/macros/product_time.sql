-- How long the products of each case and class take as measured at their very shapes, in all layers together; for query whatif.
--
-- Parts are those of sized_part; recording has the name of the GPU. Of more rows than were measured
-- (is_beyond), it is the time of the most that were: they take no less.
-- @kind   table macro
-- @scope  run
-- @needs  product_curve
CREATE OR REPLACE MACRO product_time(parts, recording) AS TABLE
WITH sized AS (
    FROM query_table(parts)
),
recorded AS (
    FROM query_table(recording)
),
shaped AS (
    SELECT
        situation.is_case,
        situation.id,
        situation.role,
        curve.to_rows IS NULL AND situation.row_count > curve.from_rows AS is_beyond,
        situation.layers * (curve.ns + curve.ns_per_row * (situation.row_count - curve.from_rows)) AS ns
    FROM sized AS situation
    CROSS JOIN recorded
    LEFT JOIN product_curve AS curve
        ON recorded.device_name = curve.device_name
        AND situation.role = curve.role
        AND situation.dtype = curve.dtype
        AND situation.flops_per_row = curve.flops_per_row
        AND situation.row_count >= curve.from_rows
        AND situation.row_count < COALESCE(curve.to_rows, 1e18)
    WHERE situation.formula = 'product' AND NOT situation.is_asked
)
SELECT
    is_case,
    id,
    role,
    SUM(ns ORDER BY ns) AS ns,
    BOOL_OR(is_beyond) AS is_beyond
FROM shaped
GROUP BY is_case, id, role
HAVING COUNT(*) = COUNT(ns)
