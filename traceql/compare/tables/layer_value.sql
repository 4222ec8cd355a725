-- One row per side, run, scope, layer and role: the time of the layer's kernels in a step of the scope, without waiting.
--
-- @column side   VARCHAR  base or new.
-- @column run    BIGINT   Number of the run in its side, from 0.
-- @column scope  VARCHAR  A phase, or all.
-- @column layer  BIGINT   Model layer.
-- @column role   VARCHAR  Role; other if unknown.
-- @column ns     DOUBLE   Time in a step, mean of the lanes, ns.
WITH sized AS (
    SELECT
        profile_stratum.side,
        profile_stratum.run,
        weight.scope,
        weight.stratum,
        weight.steps,
        SUM(weight.steps * profile_stratum.lanes) OVER (
            PARTITION BY profile_stratum.side, profile_stratum.run, weight.scope
        ) AS lane_steps
    FROM weight
    INNER JOIN profile_stratum USING (stratum)
    WHERE profile_stratum.grain = (SELECT grain FROM grain)
)
SELECT
    sized.side,
    sized.run,
    sized.scope,
    profile_layer.layer,
    profile_layer.role,
    SUM(sized.steps * profile_layer.ns ORDER BY sized.stratum) / ANY_VALUE(sized.lane_steps) AS ns
FROM sized
INNER JOIN profile_layer
    ON
        sized.side = profile_layer.side
        AND sized.run = profile_layer.run
        AND sized.stratum = profile_layer.stratum
        AND profile_layer.grain = (SELECT grain FROM grain)
GROUP BY sized.side, sized.run, sized.scope, profile_layer.layer, profile_layer.role
ORDER BY ALL
