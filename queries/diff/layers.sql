-- One row per layer and role: the time of the layer's kernels on both sides, without waiting for late ranks.
--
-- Use it to see whether all layers changed or a few; the query layers.apart names those. Each side has the
-- median of its runs.
-- @param  scope       VARCHAR = NULL  Phase of the steps, or all; the phase that takes most of base's time by default.
-- @param  role        VARCHAR = NULL  Only this role, such as qkv_proj.
-- @column scope       VARCHAR  Phase of the steps, or all.
-- @column layer       BIGINT   Number of the layer, from 0.
-- @column role        VARCHAR  Part of the model; other if unknown.
-- @column base_ns     DOUBLE   Time in a step of base, mean of the devices, ns.
-- @column new_ns      DOUBLE   The same of new, ns.
-- @column delta_ns    DOUBLE   new_ns - base_ns, ns.
-- @column change_pct  DOUBLE   delta_ns in percent of base_ns; NULL if base has no such kernels.
-- @key    layer role base_ns new_ns delta_ns change_pct
-- @empty  no layers were found on either side, or no steps of this scope are compared
-- @chart  delta x=layer y=role color=delta_ns of=base_ns
-- @title  What each layer gained or lost
WITH sized AS (
    SELECT *, MAX(GREATEST(base_ns, new_ns)) OVER (PARTITION BY role) AS largest_ns
    FROM layer
    WHERE
        role <> 'all'
        AND scope = COALESCE($scope::VARCHAR, (SELECT scope.scope FROM scope WHERE scope.position = 0))
        AND ($role::VARCHAR IS NULL OR role = $role::VARCHAR)
)
SELECT
    scope, layer, role, base_ns, new_ns,
    new_ns - base_ns AS delta_ns,
    100.0 * (new_ns - base_ns) / NULLIF(base_ns, 0) AS change_pct
FROM sized
WHERE largest_ns > 0
ORDER BY largest_ns DESC, role, layer
