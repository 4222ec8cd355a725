-- One row per request and iteration of which steps.jsonl says how many tokens were computed before, and whether that can be.
--
-- What an iteration processes is computed before the next one: the scheduler gives the keys and values
-- of a request up in an iteration without it. Fewer are right only with speculation, whose drafts may
-- be wrong. Of two that contradict each other, neither is believed.
-- @kind   scratch
-- @scope  run
-- @needs  integer_at, request, run_file, step, step_line
-- @empty_unless step_line
-- @column run              VARCHAR  Path of the run directory.
-- @column request_id       VARCHAR  Request (request.request_id).
-- @column rank             BIGINT   Rank that ran the iteration.
-- @column number           BIGINT   Iteration (run_iteration.number).
-- @column computed_tokens  BIGINT   Tokens of the request that were computed before, as the file says.
-- @column is_possible      BOOLEAN  Whether it fits the iterations beside it, the request and the longest text that the engine allows, as far as these are known.
WITH scheduled AS (
    SELECT run, rank, number, computed, UNNEST(map_entries(requests)) AS entry
    FROM step_line
    WHERE COALESCE(agrees, TRUE)
),
noted AS (
    SELECT
        run,
        rank,
        number,
        entry.key AS request_id,
        entry.value AS tokens,
        computed[entry.key] AS computed_tokens
    FROM scheduled
    WHERE computed[entry.key] IS NOT NULL
),
beside AS (
    SELECT
        *,
        computed_tokens + tokens AS kv_tokens,
        LAG(computed_tokens + tokens) OVER in_order AS kv_tokens_before,
        LAG(number) OVER in_order = number - 1 AS follows,
        LEAD(computed_tokens) OVER in_order AS computed_after,
        LEAD(number) OVER in_order = number + 1 AS is_followed
    FROM noted
    WINDOW in_order AS (PARTITION BY run, rank, request_id ORDER BY number)
),
speculation AS (
    SELECT rank, BOOL_OR(generation_tokens IS DISTINCT FROM generation_requests) AS may_draft
    FROM step
    WHERE source = 'execute_context'
    GROUP BY rank
),
-- A request that stands twice in the file says nothing.
finished AS (
    SELECT run, request_id, ANY_VALUE(prompt_tokens + output_tokens) AS tokens
    FROM request
    WHERE profiled
    GROUP BY run, request_id
    HAVING COUNT(*) = 1 AND BOOL_AND(finished)
),
engine AS (
    SELECT path AS run, integer_at(document, '$.engine_arguments.max_model_len') AS max_tokens
    FROM run_file
)
SELECT
    beside.run,
    beside.request_id,
    beside.rank,
    beside.number,
    beside.computed_tokens,
    COALESCE(NOT beside.follows OR beside.computed_tokens <= beside.kv_tokens_before, TRUE)
    AND COALESCE(NOT beside.is_followed OR beside.computed_after <= beside.kv_tokens, TRUE)
    AND COALESCE(engine.max_tokens <= 0 OR beside.kv_tokens <= engine.max_tokens, TRUE)
    AND (
        COALESCE(speculation.may_draft, TRUE)
        OR (
            COALESCE(NOT beside.follows OR beside.computed_tokens = beside.kv_tokens_before, TRUE)
            AND COALESCE(NOT beside.is_followed OR beside.computed_after = beside.kv_tokens, TRUE)
            AND COALESCE(beside.computed_tokens <= finished.tokens, TRUE)
        )
    ) AS is_possible
FROM beside
LEFT JOIN speculation USING (rank)
LEFT JOIN finished USING (run, request_id)
LEFT JOIN engine USING (run)
