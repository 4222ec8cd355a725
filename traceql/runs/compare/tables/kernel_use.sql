-- One row per side, scope, role and kernel name: the kernels of a step of the scope, in the chosen run.
-- @column side     VARCHAR  base or new.
-- @column scope    VARCHAR  A phase, or all.
-- @column role     VARCHAR  Role; other if unknown.
-- @column name     VARCHAR  Name of the kernel.
-- @column kernels  DOUBLE   Number of launches in a step, mean of the lanes.
-- @column ns       DOUBLE   Their duration in a step without waiting, mean of the lanes, ns.
SELECT
    run_stratum.side, run_stratum.scope, own.role, own.name,
    SUM(run_stratum.steps * own.kernels ORDER BY run_stratum.stratum) / ANY_VALUE(run_stratum.lane_steps) AS kernels,
    SUM(run_stratum.steps * own.ns ORDER BY run_stratum.stratum) / ANY_VALUE(run_stratum.lane_steps) AS ns
FROM chosen_run
INNER JOIN run_stratum USING (side, scope, run)
INNER JOIN profile_kernel_use AS own USING (side, run, grain, stratum)
GROUP BY run_stratum.side, run_stratum.scope, own.role, own.name
ORDER BY ALL
