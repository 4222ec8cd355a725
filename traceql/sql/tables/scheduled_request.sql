-- One row per line of steps.jsonl and request in it: whether the line belongs to the step with its number, and whether its numbers are possible.
--
-- The engine notes the time right before the worker runs the iteration, so the time lies between the
-- start of the step before and that of its own: a line of the iteration before or after is detected.
-- Both times are of the clock of one host; 0.1 ms is more than what reading it twice may differ, and
-- less than any iteration takes. The first step has none before it: its line is of the second before
-- it, and the next line has to agree. A trace whose times begin before 2001 has no Unix times.
--
-- What an iteration processes is computed before the next one: the scheduler gives the keys and values
-- of a request up in an iteration without it. Fewer are right only with speculation, whose drafts may
-- be wrong. Of two that contradict each other, neither is believed.
-- @kind   scratch
-- @scope  run
-- @needs  integer_at, request, run_file, run_iteration, step, trace
-- @empty_unless run_iteration
-- @column run              VARCHAR  Path of the run directory.
-- @column rank             BIGINT   Rank that ran the iteration.
-- @column number           BIGINT   Iteration (run_iteration.number).
-- @column agrees           BOOLEAN  Whether the time of the line is that of the step; NULL if there is no step, or if the trace has no Unix times.
-- @column request_id       VARCHAR  Request (request.request_id); NULL if the line has none.
-- @column tokens           BIGINT   Its tokens that were processed; NULL if the line has no request.
-- @column computed_tokens  BIGINT   Its tokens that were computed before, as in the file; NULL if it does not have them.
-- @column is_possible      BOOLEAN  Whether computed_tokens fits the iterations before and after it, the request and the longest text that the engine allows, as far as these are known; NULL without it, and if the line is of another step.
WITH allowed AS (SELECT 100000 AS clock_ns, 1000000000 AS first_lag_ns),
begun AS (
    SELECT
        step.rank, step.number,
        trace.base_time_ns::HUGEINT + step.ts AS unix_ns,
        step.ts - LAG(step.ts) OVER (PARTITION BY step.rank ORDER BY step.number) AS since_before_ns
    FROM step
    INNER JOIN trace ON step.rank = trace.rank AND trace.base_time_ns >= 1e18::BIGINT
    WHERE step.source = 'execute_context'
),
timed AS (
    SELECT
        run_iteration.*,
        begun.rank IS NOT NULL AS is_timed,
        begun.since_before_ns IS NULL AS is_first,
        COALESCE(
            begun.unix_ns - run_iteration.begin_unix_ns >= -allowed.clock_ns
            AND begun.unix_ns - run_iteration.begin_unix_ns
            < COALESCE(begun.since_before_ns - allowed.clock_ns, allowed.first_lag_ns),
            FALSE
        ) AS fits
    FROM run_iteration
    CROSS JOIN allowed
    LEFT JOIN begun ON run_iteration.rank = begun.rank AND run_iteration.number = begun.number
),
followed AS (
    SELECT
        *,
        LEAD(number) OVER in_order = number + 1 AND LEAD(is_timed) OVER in_order AND NOT LEAD(fits) OVER in_order
            AS next_is_wrong
    FROM timed
    WINDOW in_order AS (PARTITION BY run, rank ORDER BY number)
),
scheduled AS (
    SELECT
        run, rank, number, computed,
        CASE WHEN is_timed THEN fits AND NOT (is_first AND COALESCE(next_is_wrong, FALSE)) END AS agrees,
        UNNEST(CASE WHEN cardinality(requests) > 0 THEN map_entries(requests) ELSE [NULL] END) AS entry
    FROM followed
),
entered AS (
    SELECT
        * EXCLUDE (computed, entry),
        entry.key AS request_id,
        entry.value AS tokens,
        computed[entry.key] AS computed_tokens
    FROM scheduled
),
beside AS (
    SELECT
        *,
        computed_tokens + tokens AS kv_tokens,
        LAG(computed_tokens + tokens) OVER in_order AS kv_tokens_before,
        LAG(number) OVER in_order = number - 1 AS follows,
        LEAD(computed_tokens) OVER in_order AS computed_after,
        LEAD(number) OVER in_order = number + 1 AS is_followed
    FROM entered
    WHERE COALESCE(agrees, TRUE) AND computed_tokens IS NOT NULL
    WINDOW in_order AS (PARTITION BY run, rank, request_id ORDER BY number)
),
speculation AS (
    SELECT rank, BOOL_OR(generation_tokens IS DISTINCT FROM generation_requests) AS may_draft
    FROM step
    WHERE source = 'execute_context'
    GROUP BY rank
),
-- A request that is twice in the file is ignored.
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
),
checked AS (
    SELECT
        beside.run, beside.rank, beside.number, beside.request_id,
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
)
SELECT
    entered.run, entered.rank, entered.number, entered.agrees, entered.request_id, entered.tokens,
    entered.computed_tokens, checked.is_possible
FROM entered
LEFT JOIN checked USING (run, rank, number, request_id)
