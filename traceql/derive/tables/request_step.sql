-- One row per request and engine iteration of a rank in which it had tokens processed, as the scheduler said.
-- @scope  run
-- @needs  run_iteration, step
-- @column run         VARCHAR  Path of the run directory.
-- @column request_id  VARCHAR  Row of request.
-- @column rank        BIGINT   Rank that ran it.
-- @column step_id     BIGINT   Row of step.
-- @column tokens      BIGINT   Tokens processed for it.
WITH scheduled AS (
    SELECT run, rank, number, UNNEST(map_entries(requests)) AS entry
    FROM run_iteration
)
SELECT
    scheduled.run,
    scheduled.entry.key AS request_id,
    scheduled.rank,
    step.step_id,
    scheduled.entry.value AS tokens
FROM scheduled
INNER JOIN step
    ON scheduled.rank = step.rank AND scheduled.number = step.number
WHERE step.source = 'execute_context'
ORDER BY step.step_id, request_id
