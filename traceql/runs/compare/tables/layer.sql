-- One row per scope, layer and role: the time of the layer's kernels on both sides, without waiting.
--
-- Each side has the median of its runs. The role all is the sum of the layer's roles.
-- @column scope    VARCHAR  A phase, or all.
-- @column layer    BIGINT   Model layer.
-- @column role     VARCHAR  Role; other if unknown; all for all of them.
-- @column base_ns  DOUBLE   Time in a step of base, mean of the lanes, ns; 0 if it has no such kernels.
-- @column new_ns   DOUBLE   The same of new.
WITH own AS (
    SELECT side, run, scope, layer, role, ns FROM layer_value
    UNION ALL
    SELECT side, run, scope, layer, 'all', SUM(ns ORDER BY role) FROM layer_value GROUP BY side, run, scope, layer
)
SELECT
    scope, layer, role,
    COALESCE(median(ns) FILTER (side = 'base'), 0) AS base_ns,
    COALESCE(median(ns) FILTER (side = 'new'), 0) AS new_ns
FROM own
GROUP BY scope, layer, role
ORDER BY scope, layer, role
