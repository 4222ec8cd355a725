-- One row per unit and step in it.
-- @kind   step
-- @column unit_id  BIGINT  Unit (unit.unit_id).
-- @column step_id  BIGINT  Step (step.step_id).
SELECT unit_id, UNNEST(step_ids) AS step_id
FROM unit
