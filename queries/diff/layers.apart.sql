-- One row per role and layer that changed unlike the others; a role whose layers changed alike has one row without a layer.
--
-- Use it to distinguish a new kernel, which changes all layers by the same factor, from one slow
-- layer. usual_pct is the change of the median layer; a layer is apart if it is far from that in
-- proportion to how the others differ, by 3% at least and by a time that matters to the step.
-- @param  scope       VARCHAR = NULL  Phase of the steps, or all; the phase that takes most of base's time by default.
-- @column scope       VARCHAR  Phase of the steps, or all.
-- @column role        VARCHAR  Part of the model; all for the whole layer.
-- @column layers      BIGINT   Number of layers with the role on both sides.
-- @column usual_pct   DOUBLE   Change of the median layer, percent.
-- @column low_pct     DOUBLE   Least change of a layer that changed with the others, percent.
-- @column high_pct    DOUBLE   Greatest one, percent.
-- @column layer       BIGINT   Number of the layer that is apart; NULL if none is.
-- @column change_pct  DOUBLE   Its change, percent.
-- @column base_ns     DOUBLE   Its time in a step of base, ns.
-- @column new_ns      DOUBLE   Its time in a step of new, ns.
-- @key    role layers usual_pct low_pct high_pct layer change_pct base_ns new_ns
-- @empty  fewer than three layers have a role on both sides, or no steps of this scope are compared
-- @chart  none
WITH one_each AS (
    SELECT
        layer_change.scope, layer_change.role, layer_change.layers, layer_change.usual_pct,
        layer_change.low_pct, layer_change.high_pct,
        unnest(CASE WHEN len(layer_change.apart) = 0 THEN [NULL] ELSE layer_change.apart END) AS apart
    FROM layer_change
    WHERE layer_change.scope = COALESCE($scope::VARCHAR, (SELECT scope.scope FROM scope WHERE scope.position = 0))
)
SELECT
    scope, role, layers, usual_pct, low_pct, high_pct,
    apart.layer AS layer,
    apart.change_pct AS change_pct,
    apart.base_ns AS base_ns,
    apart.new_ns AS new_ns
FROM one_each
ORDER BY
    apart.layer IS NULL,
    MAX(ABS(apart.new_ns - apart.base_ns)) OVER (PARTITION BY role) DESC,
    role <> 'all',
    role,
    layer
