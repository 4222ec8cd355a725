-- What the roles of each recorded class of steps took above (memory, fixed) or relative to (compute) the attainable time; for query whatif.
-- @kind   table macro
-- @scope  run
-- @needs  class_time, cost_formula
CREATE OR REPLACE MACRO recorded_point(classes, attainables) AS TABLE
WITH class AS (
    FROM query_table(classes)
),
attainable AS (
    FROM query_table(attainables)
)
SELECT
    class_time.class_id,
    class_time.role,
    class.is_of_phase,
    class.steps,
    class.in_graph,
    class.executed_tokens,
    COALESCE(attainable.formula IN ('product', 'experts'), FALSE) AS is_product,
    COALESCE(attainable.is_compute, FALSE) AS is_compute,
    COALESCE(attainable.row_count, class.executed_tokens) AS row_count,
    class_time.ns - COALESCE(attainable.ns, 0) AS above_ns,
    class_time.ns / NULLIF(attainable.ns, 0) AS ratio
FROM class_time
INNER JOIN class USING (class_id)
LEFT JOIN attainable
    ON class_time.class_id = attainable.id AND class_time.role = attainable.role AND NOT attainable.is_case
WHERE
    class_time.part = 'computing'
    AND (
        attainable.ns IS NOT NULL
        OR class_time.role NOT IN (SELECT UNNEST(roles) FROM cost_formula)
        OR class_time.role IS NULL
    )
