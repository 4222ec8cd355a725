-- One row per side, scope, role and kernel name: the kernels of a step of the scope, in the chosen run.
--
-- @column side     VARCHAR  base or new.
-- @column scope    VARCHAR  A phase, or all.
-- @column role     VARCHAR  Role; other if unknown.
-- @column name     VARCHAR  Name of the kernel.
-- @column kernels  DOUBLE   Number of launches in a step, mean of the lanes.
-- @column ns       DOUBLE   Their duration in a step without waiting, mean of the lanes, ns.
WITH sized AS (
    SELECT
        chosen_run.side,
        chosen_run.scope,
        chosen_run.run,
        weight.stratum,
        weight.steps,
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
)
SELECT
    sized.side,
    sized.scope,
    own.role,
    own.name,
    SUM(sized.steps * own.kernels ORDER BY sized.stratum) / ANY_VALUE(sized.lane_steps) AS kernels,
    SUM(sized.steps * own.ns ORDER BY sized.stratum) / ANY_VALUE(sized.lane_steps) AS ns
FROM sized
INNER JOIN profile_kernel_use AS own
    ON
        sized.side = own.side
        AND sized.run = own.run
        AND sized.stratum = own.stratum
        AND own.grain = (SELECT grain FROM grain)
GROUP BY sized.side, sized.scope, own.role, own.name
ORDER BY ALL
