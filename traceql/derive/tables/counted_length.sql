-- One row per request and iteration whose tokens before it can be counted, because the request began inside the recorded window.
--
-- A request began there if its chunks up to its first iteration with one token are exactly its
-- prompt, and if it gave no token before. Else it may have begun earlier, or the prefix cache may
-- have had a part of it. In the iterations of the chunks, each request that generates must have one
-- token, so that a chunk is no draft of speculation. Nothing is known from an iteration on that is
-- missing, or in which the request had begun to generate and has not exactly one token.
-- @kind   scratch
-- @scope  run
-- @needs  request, step, step_line
-- @empty_unless request
-- @column run              VARCHAR  Path of the run directory.
-- @column request_id       VARCHAR  Request (request.request_id).
-- @column rank             BIGINT   Rank that ran the iteration.
-- @column number           BIGINT   Iteration (run_iteration.number).
-- @column computed_tokens  BIGINT   Tokens of the request in the iterations before.
WITH unbroken AS (
    SELECT
        *,
        number - ROW_NUMBER() OVER (PARTITION BY run, rank ORDER BY number) AS missing
    FROM step_line
    WHERE COALESCE(agrees, TRUE)
),
scheduled AS (
    SELECT
        unbroken.run,
        unbroken.rank,
        unbroken.number,
        unbroken.missing,
        UNNEST(map_entries(unbroken.requests)) AS entry,
        step.ts,
        COALESCE(step.generation_tokens = step.generation_requests, FALSE) AS generates_single
    FROM unbroken
    LEFT JOIN step USING (rank, number)
),
chunk AS (
    SELECT
        * EXCLUDE entry,
        entry.key AS request_id,
        entry.value AS tokens,
        MIN(number) FILTER (entry.value = 1) OVER of_request AS first_single,
        MIN(missing) OVER of_request AS first_missing,
        MIN(ts) OVER of_request AS first_ts,
        COALESCE(SUM(entry.value) OVER (
            PARTITION BY run, rank, entry.key ORDER BY number
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS tokens_before
    FROM scheduled
    WINDOW of_request AS (PARTITION BY run, rank, entry.key)
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
-- A request that stands twice in the file says nothing.
asked AS (
    SELECT
        run,
        request_id,
        ANY_VALUE(prompt_tokens) AS prompt_tokens,
        ANY_VALUE(first_token_ts) AS first_token_ts
    FROM request
    WHERE profiled
    GROUP BY run, request_id
    HAVING COUNT(*) = 1
)
SELECT
    phased.run,
    phased.request_id,
    phased.rank,
    phased.number,
    CAST(phased.tokens_before AS BIGINT) AS computed_tokens
FROM phased
INNER JOIN asked USING (run, request_id, prompt_tokens)
WHERE
    phased.are_chunks
    AND phased.missing = phased.first_missing
    AND COALESCE(phased.number < phased.first_odd, TRUE)
    AND COALESCE(asked.first_token_ts >= phased.first_ts, TRUE)
