-- One row per line of steps.jsonl, and whether it is of the step that has its number.
--
-- The engine notes the time right before the worker runs the iteration, so the time lies between the
-- start of the step before and that of its own: a line of the iteration before or after is told.
-- Both times are of the clock of one host; 0.1 ms is more than what reading it twice may differ, and
-- less than any iteration takes. The first step has none before it: its line is of the second before
-- it, and the next line has to agree. A trace whose times begin before 2001 has no Unix times.
-- @kind   scratch
-- @scope  run
-- @needs  run_iteration, step, trace
-- @empty_unless run_iteration
-- @column run       VARCHAR              Path of the run directory.
-- @column rank      BIGINT               Rank that ran the iteration.
-- @column number    BIGINT               Iteration (run_iteration.number).
-- @column requests  MAP(VARCHAR, BIGINT)  As in run_iteration.
-- @column computed  MAP(VARCHAR, BIGINT)  As in run_iteration.
-- @column agrees    BOOLEAN              Whether its time is that of the step; NULL if there is no step, or if the trace has no Unix times.
WITH allowed AS (
    SELECT 100000 AS clock_ns, 1000000000 AS first_lag_ns
),
begun AS (
    SELECT
        step.rank,
        step.number,
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
)
SELECT
    run,
    rank,
    number,
    requests,
    computed,
    CASE WHEN is_timed THEN fits AND NOT (is_first AND COALESCE(next_is_wrong, FALSE)) END AS agrees
FROM followed
