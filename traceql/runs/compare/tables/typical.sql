-- One row per side, scope, part, role and cause: what the step of the scope spends its time on, in the chosen run.
--
-- The step of a scope is the mean of the median steps of its strata, weighted as in run_value, on one
-- lane. Its parts are those of the typical steps, the half of the steps in the middle; they are
-- rounded so that they add up. What the median step is longer than the mean of the typical steps is
-- a part of its own, median_less_mean.
-- @column side   VARCHAR  base or new.
-- @column scope  VARCHAR  A phase, or all.
-- @column part   VARCHAR  As in profile_typical_part, or median_less_mean.
-- @column role   VARCHAR  Role; NULL in the parts idle, other_step and median_less_mean.
-- @column cause  VARCHAR  Why the device is idle; NULL in all other parts.
-- @column ns     BIGINT   Time, ns.
WITH summed AS (
    SELECT
        run_stratum.side, run_stratum.scope, own.part, own.role, own.cause,
        SUM(run_stratum.steps / run_stratum.typical * own.ns ORDER BY run_stratum.stratum) / ANY_VALUE(run_stratum.lane_steps) AS ns
    FROM chosen_run
    INNER JOIN run_stratum USING (side, scope, run)
    INNER JOIN profile_typical_part AS own USING (side, run, grain, stratum)
    GROUP BY run_stratum.side, run_stratum.scope, own.part, own.role, own.cause
),
placed AS (
    SELECT
        *,
        CAST(ROUND(SUM(ns) OVER (
            PARTITION BY side, scope ORDER BY part, role NULLS FIRST, cause NULLS FIRST
        )) AS BIGINT) AS until_ns
    FROM summed
),
rounded AS (
    SELECT
        * EXCLUDE (ns, until_ns),
        until_ns - LAG(until_ns, 1, 0) OVER (
            PARTITION BY side, scope ORDER BY part, role NULLS FIRST, cause NULLS FIRST
        ) AS ns
    FROM placed
),
whole AS (
    SELECT side, scope, SUM(ns) AS ns FROM rounded GROUP BY side, scope
),
rest AS (
    SELECT whole.side, whole.scope, CAST(ROUND(run_value.ns) AS BIGINT) - whole.ns AS ns
    FROM whole
    INNER JOIN chosen_run USING (side, scope)
    INNER JOIN run_value USING (side, scope, run)
    WHERE run_value.metric = 'step'
)
SELECT side, scope, part, role, cause, ns FROM rounded
UNION ALL
SELECT side, scope, 'median_less_mean', NULL, NULL, CAST(ns AS BIGINT) FROM rest WHERE ns <> 0
ORDER BY ALL
