-- One row per request and step in which tokens of the request were processed, as the scheduler reported.
-- @scope  run
-- @needs  run_iteration, step
-- @column run         VARCHAR  Path of the run directory.
-- @column request_id  VARCHAR  Request (request.request_id).
-- @column rank        BIGINT   Rank that ran the step.
-- @column step_id     BIGINT   Step (step.step_id).
-- @column tokens      BIGINT   Tokens of the request that were processed in the step.
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
