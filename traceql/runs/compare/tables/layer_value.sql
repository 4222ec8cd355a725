-- One row per side, run, scope, layer and role: the time of the layer's kernels in a step of the scope, without waiting.
-- @column side   VARCHAR  base or new.
-- @column run    BIGINT   Number of the run in its side, from 0.
-- @column scope  VARCHAR  A phase, or all.
-- @column layer  BIGINT   Model layer.
-- @column role   VARCHAR  Role; other if unknown.
-- @column ns     DOUBLE   Time in a step, mean of the lanes, ns.
SELECT
    run_stratum.side, run_stratum.run, run_stratum.scope, profile_layer.layer, profile_layer.role,
    SUM(run_stratum.steps * profile_layer.ns ORDER BY run_stratum.stratum) / ANY_VALUE(run_stratum.lane_steps) AS ns
FROM run_stratum
INNER JOIN profile_layer USING (side, run, grain, stratum)
GROUP BY run_stratum.side, run_stratum.run, run_stratum.scope, profile_layer.layer, profile_layer.role
ORDER BY ALL
