-- One row per scope, rank, part, root rank and cause: idle time and waiting in a step of the scope, by what is to blame.
--
-- Each side has the median of its runs. The idle time right before the step counts.
-- @column scope      VARCHAR  A phase, or all.
-- @column rank       BIGINT   Rank that lost the time.
-- @column part       VARCHAR  idle or exposed_wait.
-- @column root_rank  BIGINT   Rank that the cause is on: the rank itself if it was idle, the late rank if it waited.
-- @column cause      VARCHAR  Cause, as in lost_time.
-- @column base_ns    DOUBLE   Time in a step of base, ns.
-- @column new_ns     DOUBLE   Time in a step of new, ns.
-- @column delta_ns   DOUBLE   new_ns - base_ns.
WITH run_lost AS (
    SELECT
        own.* EXCLUDE (grain, stratum, ns),
        weight.scope,
        SUM(weight.steps * own.ns ORDER BY weight.stratum) AS ns
    FROM weight
    INNER JOIN profile_lost AS own USING (stratum)
    WHERE own.grain = (SELECT grain FROM grain)
    GROUP BY ALL
),
scope_steps AS (
    SELECT scope, SUM(steps) AS steps FROM weight GROUP BY scope
),
side_runs AS (
    SELECT side, COUNT(DISTINCT run) AS runs FROM profile_fact GROUP BY side
),
side_lost AS (
    SELECT
        run_lost.* EXCLUDE (run, ns),
        list_median(CAST(list_resize(LIST(ns ORDER BY run), ANY_VALUE(side_runs.runs), 0) AS DOUBLE[]))
        / ANY_VALUE(scope_steps.steps) AS ns
    FROM run_lost
    INNER JOIN side_runs USING (side)
    INNER JOIN scope_steps USING (scope)
    GROUP BY ALL
)
SELECT
    scope, rank, part, root_rank, cause,
    COALESCE(ANY_VALUE(ns) FILTER (side = 'base'), 0) AS base_ns,
    COALESCE(ANY_VALUE(ns) FILTER (side = 'new'), 0) AS new_ns,
    new_ns - base_ns AS delta_ns
FROM side_lost
GROUP BY ALL
ORDER BY scope, ABS(delta_ns) DESC, rank, part, root_rank, cause
