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
WITH sized AS (
    SELECT
        chosen_run.side,
        chosen_run.scope,
        chosen_run.run,
        weight.stratum,
        weight.steps / profile_stratum.typical AS steps_of_each,
        SUM(weight.steps * profile_stratum.lanes) OVER (
            PARTITION BY chosen_run.side, chosen_run.scope
        ) AS lane_steps
    FROM chosen_run
    INNER JOIN weight USING (scope)
    INNER JOIN profile_stratum
        ON
            chosen_run.side = profile_stratum.side
            AND chosen_run.run = profile_stratum.run
            AND weight.stratum = profile_stratum.stratum
            AND profile_stratum.grain = (SELECT grain FROM grain)
),
summed AS (
    SELECT
        sized.side,
        sized.scope,
        own.part,
        own.role,
        own.cause,
        SUM(sized.steps_of_each * own.ns ORDER BY sized.stratum) / ANY_VALUE(sized.lane_steps) AS ns
    FROM sized
    INNER JOIN profile_typical_part AS own
        ON
            sized.side = own.side
            AND sized.run = own.run
            AND sized.stratum = own.stratum
            AND own.grain = (SELECT grain FROM grain)
    GROUP BY sized.side, sized.scope, own.part, own.role, own.cause
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
        side,
        scope,
        part,
        role,
        cause,
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
