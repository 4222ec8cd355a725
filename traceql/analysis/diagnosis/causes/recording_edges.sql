-- The recording ends in steps that run ever fewer requests: the workload ends, not a cause of slow steps.
-- @title   edges of the recording
-- @group   recording
-- @most    remark
-- @query   steps.anatomy
-- @record  Record steps with known requests (traceql capture run).
-- @source  own: batches drain when no request follows; a recording of 24 steps ended in five of 9 to 1 requests
-- @needs   engine_step
WITH numbered AS (
    SELECT
        number, requests, context_tokens, step_id,
        MEDIAN(requests) OVER () AS usual,
        COUNT(*) OVER () AS steps,
        ROW_NUMBER() OVER (ORDER BY number DESC) AS place
    FROM engine_step
    WHERE
        requests IS NOT NULL
        AND rank = (SELECT MIN(rank) FROM engine_step)
        AND device = (SELECT MIN(device) FROM engine_step WHERE rank = (SELECT MIN(rank) FROM engine_step))
),
-- From the last step back, as long as no request begins and none is missing in the step before.
drained AS (
    SELECT *, SUM(CASE WHEN requests < 0.75 * usual AND COALESCE(context_tokens, 0) = 0 AND requests >= after THEN 0 ELSE 1 END) OVER (
        ORDER BY place ROWS UNBOUNDED PRECEDING
    ) = 0 AS is_drained
    FROM (SELECT *, LAG(requests, 1, 0) OVER (ORDER BY place) AS after FROM numbered)
),
counted AS (
    SELECT
        COUNT(*) AS steps,
        COUNT(*) FILTER (is_drained) AS ending,
        MAX(requests) FILTER (is_drained) AS most,
        MIN(requests) FILTER (is_drained) AS fewest,
        ANY_VALUE(usual) AS usual
    FROM drained
)
SELECT
    CASE WHEN steps >= 4 THEN ending >= 2 END AS is_confirmed,
    CASE
        WHEN steps = 0 THEN 'how many requests a step runs is unknown'
        WHEN steps < 4 THEN format('too few steps to see it: {}', steps)
        ELSE 'the last steps run as many requests as the others'
    END AS reason,
    format('The last {} of {} steps run {} to {} requests: the workload ends', ending, steps, most, fewest) AS headline,
    [format('The median step runs {:.0f}; no request begins in the last {}.', usual, ending)] AS evidence,
    format('Leave out these {} steps when you compare, or record fewer (traceql capture run --steps {})', ending, steps - ending) AS remedy,
    TRUE AS is_remark
FROM counted
