-- One row per request and step in which tokens of the request were processed, as the scheduler reported at the time of the step.
-- @schema main
-- @scope  run
-- @needs  request, scheduled_request, step
-- @empty_unless scheduled_request
-- @column run              VARCHAR  Path of the run directory.
-- @column request_id       VARCHAR  Request (request.request_id).
-- @column rank             BIGINT   Rank that ran the step.
-- @column step_id          BIGINT   Step (step.step_id).
-- @column tokens           BIGINT   Tokens of the request that were processed in the step.
-- @column computed_tokens  BIGINT   Tokens of the request whose keys and values existed before the step, of its prompt, of the prefix cache and of its output; NULL if unknown, or if the number in the file is impossible.
WITH unbroken AS (
    SELECT *, number - DENSE_RANK() OVER (PARTITION BY run, rank ORDER BY number) AS missing
    FROM scheduled_request
    WHERE COALESCE(agrees, TRUE)
),
scheduled AS (SELECT * FROM unbroken WHERE request_id IS NOT NULL),
-- Where the file does not say what was computed, it can be counted if the request began inside the
-- recorded window: if its chunks up to its first iteration with one token are exactly its prompt, and if
-- it gave no token before. Else it may have begun earlier, or the prefix cache may have had a part of it.
-- In the iterations of the chunks, each request that generates must have one token, so that a chunk is not a
-- draft of speculation. Nothing is known from an iteration on that is missing, or in which the request had
-- begun to generate and has not exactly one token.
chunk AS (
    SELECT
        scheduled.run, scheduled.rank, scheduled.number, scheduled.missing, scheduled.request_id,
        scheduled.tokens, step.ts,
        COALESCE(step.generation_tokens = step.generation_requests, FALSE) AS generates_single,
        MIN(scheduled.number) FILTER (scheduled.tokens = 1) OVER of_request AS first_single,
        MIN(scheduled.missing) OVER of_request AS first_missing,
        MIN(step.ts) OVER of_request AS first_ts,
        COALESCE(SUM(scheduled.tokens) OVER (
            of_request ORDER BY scheduled.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS tokens_before
    FROM scheduled
    LEFT JOIN step USING (rank, number)
    WINDOW of_request AS (PARTITION BY scheduled.run, scheduled.rank, scheduled.request_id)
),
phased AS (
    SELECT
        * EXCLUDE ts,
        MIN(number) FILTER (number > first_single AND tokens != 1) OVER of_request AS first_odd,
        SUM(tokens) FILTER (COALESCE(number < first_single, TRUE)) OVER of_request AS prompt_tokens,
        BOOL_AND(generates_single) FILTER (COALESCE(number < first_single, TRUE)) OVER of_request
            AS are_chunks
    FROM chunk
    WINDOW of_request AS (PARTITION BY run, rank, request_id)
),
-- A request that is twice in the file is ignored.
requested AS (
    SELECT
        run, request_id,
        ANY_VALUE(prompt_tokens) AS prompt_tokens,
        ANY_VALUE(first_token_ts) AS first_token_ts
    FROM request
    WHERE profiled
    GROUP BY run, request_id
    HAVING COUNT(*) = 1
),
counted AS (
    SELECT
        phased.run, phased.request_id, phased.rank, phased.number,
        CAST(phased.tokens_before AS BIGINT) AS computed_tokens
    FROM phased
    INNER JOIN requested USING (run, request_id, prompt_tokens)
    WHERE
        phased.are_chunks
        AND phased.missing = phased.first_missing
        AND COALESCE(phased.number < phased.first_odd, TRUE)
        AND COALESCE(requested.first_token_ts >= phased.first_ts, TRUE)
)
SELECT
    scheduled.run, scheduled.request_id, scheduled.rank, step.step_id, scheduled.tokens,
    CASE
        WHEN scheduled.computed_tokens IS NULL THEN counted.computed_tokens
        WHEN scheduled.is_possible THEN scheduled.computed_tokens
    END AS computed_tokens
FROM scheduled
INNER JOIN step
    ON scheduled.rank = step.rank AND scheduled.number = step.number
LEFT JOIN counted
    ON
        scheduled.run = counted.run
        AND scheduled.rank = counted.rank
        AND scheduled.number = counted.number
        AND scheduled.request_id = counted.request_id
WHERE step.source = 'execute_context'
ORDER BY step.step_id, scheduled.request_id
