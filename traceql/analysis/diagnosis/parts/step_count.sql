-- One row: how many steps were recorded, and of which kind.
-- @kind   scratch
-- @scope  run
-- @needs  engine_step, launch
-- @column steps         BIGINT   Steps with work, counted on one rank.
-- @column inner_steps   BIGINT   Those between the first and the last one.
-- @column engine_steps  BIGINT   Those of an inference engine: with a known phase.
-- @column decode_steps  BIGINT   Those that only generate tokens.
-- @column is_other      BOOLEAN  Whether there are steps, and none of an inference engine, as when a model is trained.
-- @column has_launches  BOOLEAN  Whether any launch call was recorded.
-- @column is_vllm       BOOLEAN  Whether vLLM's annotations name them.
SELECT
    COUNT(DISTINCT number) AS steps,
    COUNT(DISTINCT number) FILTER (NOT is_edge) AS inner_steps,
    COUNT(DISTINCT number) FILTER (phase IN ('prefill', 'decode', 'mixed')) AS engine_steps,
    COUNT(DISTINCT number) FILTER (phase = 'decode') AS decode_steps,
    COUNT(*) > 0 AND COUNT(*) FILTER (phase IN ('prefill', 'decode', 'mixed')) = 0 AS is_other,
    (SELECT COUNT(*) FROM launch) > 0 AS has_launches,
    COUNT(*) FILTER (source = 'execute_context') > 0 AS is_vllm
FROM engine_step
