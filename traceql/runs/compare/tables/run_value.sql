-- One row per run, scope and metric: the metric's time in a step of the scope.
--
-- Each run's values of the strata are weighted by the numbers of steps that both sides have, so that
-- a change of the mix does not count. A metric that a stratum of the run does not have is 0 there.
-- Where it is unknown whether a role's operations wait, the time of the role includes waiting
-- in all runs, and so does the work of the GPU (busy).
-- @column side     VARCHAR  base or new.
-- @column run      BIGINT   Number of the run in its side, from 0.
-- @column scope    VARCHAR  A phase, or all.
-- @column metric   VARCHAR  As in profile_metric.
-- @column kind     VARCHAR  whole, part or role.
-- @column ns       DOUBLE   Time in a step, mean of the lanes, ns.
-- @column kernels  DOUBLE   Number of kernels in a step, mean of the lanes; NULL unless it is a role.
-- @column mad_ns   DOUBLE   Median distance of a step of the run from its stratum's median, ns; NULL if no stratum has three steps.
-- @column has_wait BOOLEAN  Whether 1% or more of it, in a run, is of operations whose waiting is unknown.
WITH valued AS (
    SELECT
        run_stratum.side, run_stratum.run, run_stratum.scope, profile_metric.metric,
        profile_metric.kind,
        SUM(run_stratum.steps * profile_metric.ns ORDER BY run_stratum.stratum) / ANY_VALUE(run_stratum.lane_steps) AS ns,
        SUM(run_stratum.steps * profile_metric.kernels ORDER BY run_stratum.stratum) / ANY_VALUE(run_stratum.lane_steps) AS kernels,
        SUM(run_stratum.steps * profile_metric.mad_ns) / ANY_VALUE(run_stratum.lane_steps) AS mad_ns
    FROM run_stratum
    INNER JOIN profile_metric USING (side, run, grain, stratum)
    GROUP BY run_stratum.side, run_stratum.run, run_stratum.scope, profile_metric.metric, profile_metric.kind
),
untold AS (
    SELECT side, run, scope, metric, 'role' AS kind, ns FROM valued WHERE kind = 'unmatched' AND ns > 0
    UNION ALL
    SELECT side, run, scope, 'busy', 'part', ns FROM valued WHERE metric = 'exposed_unmatched' AND ns > 0
),
unmatched AS (
    SELECT
        untold.scope, untold.metric, untold.kind,
        BOOL_OR(untold.ns > 0.01 * valued.ns) AS has_wait
    FROM untold
    INNER JOIN valued USING (side, run, scope, metric, kind)
    GROUP BY untold.scope, untold.metric, untold.kind
),
waiting AS (
    SELECT valued.side, valued.run, valued.scope, valued.metric, valued.ns
    FROM valued
    INNER JOIN unmatched USING (scope, metric)
    WHERE valued.kind = 'wait' AND unmatched.kind = 'role'
)
SELECT
    valued.side, valued.run, valued.scope, valued.metric, valued.kind,
    valued.ns + CASE WHEN valued.kind = 'role' THEN COALESCE(waiting.ns, 0) ELSE 0 END AS ns,
    valued.kernels, valued.mad_ns,
    COALESCE(unmatched.has_wait, FALSE) AS has_wait
FROM valued
LEFT JOIN unmatched USING (scope, metric, kind)
LEFT JOIN waiting USING (side, run, scope, metric)
WHERE valued.kind NOT IN ('wait', 'unmatched')
ORDER BY ALL
