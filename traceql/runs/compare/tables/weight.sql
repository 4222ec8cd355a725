-- One row per compared stratum and scope: how many of its steps make up the step of the scope.
-- @column scope    VARCHAR  A phase, or all.
-- @column stratum  VARCHAR  Stratum.
-- @column steps    BIGINT   Steps of the stratum that a run of either side has: the smaller number, so that the sides can be exchanged.
SELECT phase AS scope, stratum, LEAST(base_steps, new_steps) AS steps FROM stratum WHERE is_compared
UNION ALL
SELECT 'all', stratum, LEAST(base_steps, new_steps) FROM stratum WHERE is_compared
ORDER BY scope, stratum
