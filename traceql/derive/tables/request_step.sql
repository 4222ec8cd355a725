-- One row per request and step in which tokens of the request were processed, as the scheduler reported at the time of the step.
-- @schema main
-- @scope  run
-- @needs  counted_length, noted_length, step, step_line
-- @empty_unless step_line
-- @column run              VARCHAR  Path of the run directory.
-- @column request_id       VARCHAR  Request (request.request_id).
-- @column rank             BIGINT   Rank that ran the step.
-- @column step_id          BIGINT   Step (step.step_id).
-- @column tokens           BIGINT   Tokens of the request that were processed in the step.
-- @column computed_tokens  BIGINT   Tokens of the request whose keys and values existed before the step, of its prompt, of the prefix cache and of its output; NULL if unknown, or if what the file says cannot be.
WITH scheduled AS (
    SELECT run, rank, number, UNNEST(map_entries(requests)) AS entry
    FROM step_line
    WHERE COALESCE(agrees, TRUE)
)
SELECT
    scheduled.run,
    scheduled.entry.key AS request_id,
    scheduled.rank,
    step.step_id,
    scheduled.entry.value AS tokens,
    CASE
        WHEN noted_length.computed_tokens IS NULL THEN counted_length.computed_tokens
        WHEN noted_length.is_possible THEN noted_length.computed_tokens
    END AS computed_tokens
FROM scheduled
INNER JOIN step
    ON scheduled.rank = step.rank AND scheduled.number = step.number
LEFT JOIN noted_length
    ON
        scheduled.run = noted_length.run
        AND scheduled.rank = noted_length.rank
        AND scheduled.number = noted_length.number
        AND scheduled.entry.key = noted_length.request_id
LEFT JOIN counted_length
    ON
        scheduled.run = counted_length.run
        AND scheduled.rank = counted_length.rank
        AND scheduled.number = counted_length.number
        AND scheduled.entry.key = counted_length.request_id
WHERE step.source = 'execute_context'
ORDER BY step.step_id, request_id
