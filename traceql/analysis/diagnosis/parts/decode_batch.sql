-- One row: how many tokens decode steps process, and what of their time grows with the requests.
-- @kind   scratch
-- @scope  run
-- @needs  engine_step, time_scale, time_unit
-- @column steps            BIGINT  Decode steps of a rank, without the first and the last step.
-- @column requests         DOUBLE  Requests of such a step, on average.
-- @column tokens           DOUBLE  Its tokens.
-- @column step_ns          DOUBLE  Its time on a device, without the profiler where that was measured, ns.
-- @column attention_share  DOUBLE  Share of attention in it, 0 to 1.
-- @column unknown_steps    BIGINT  Steps of which it is not known whether they process prompts.
WITH decode AS (
    SELECT step_id, number, requests, tokens
    FROM engine_step
    WHERE phase = 'decode' AND NOT is_edge
),
spent AS (
    SELECT
        SUM(CASE WHEN part = 'lost' THEN ns * COALESCE(time_scale.scale, 1) ELSE ns END) AS ns,
        COALESCE(SUM(ns) FILTER (category = 'attention'), 0) AS attention_ns,
        COUNT(DISTINCT time_unit.step_id) AS steps
    FROM time_unit
    INNER JOIN decode USING (step_id)
    CROSS JOIN time_scale
)
SELECT
    (SELECT COUNT(DISTINCT number) FROM decode) AS steps,
    (SELECT AVG(requests) FROM decode) AS requests,
    (SELECT AVG(tokens) FROM decode) AS tokens,
    CAST(spent.ns / NULLIF(spent.steps, 0) AS DOUBLE) AS step_ns,
    CAST(spent.attention_ns / NULLIF(spent.ns, 0) AS DOUBLE) AS attention_share,
    (SELECT COUNT(*) FROM engine_step WHERE phase IS NULL) AS unknown_steps
FROM spent
