-- One row per unit, lane, part, role, layer and cause: what the lane spent the GPU span of its step on.
-- @kind   view
-- @column unit_id  BIGINT   Unit (unit.unit_id).
-- @column part     VARCHAR  As in step_time.
-- @column role     VARCHAR  As in step_time; other if unknown. NULL in the parts idle and other_step.
-- @column layer    BIGINT   As in step_time.
-- @column cause    VARCHAR  As in step_time.
-- @column ns       BIGINT   Time, ns.
SELECT
    unit_step.unit_id, step_time.part,
    CASE WHEN step_time.part NOT IN ('idle', 'other_step') THEN COALESCE(step_time.role, 'other') END AS role,
    step_time.layer, step_time.cause, step_time.ns
FROM unit_step
INNER JOIN step_time USING (step_id)
