-- One row per part of the step of one side: what its time is made of.
--
-- Both sides are drawn on one scale. The rows add up to the step, to the nanosecond; the query waterfall
-- has the differences between the two.
-- @param  scope       VARCHAR = NULL  Phase whose step it is, or all; the phase that takes most of base's time by default.
-- @param  side        VARCHAR = base  The side.
-- @values side        base new
-- @column scope       VARCHAR  Phase of the step, or all.
-- @column side        VARCHAR  base or new.
-- @column part        VARCHAR  As in the query waterfall.
-- @column name        VARCHAR  The row for people, as in the query waterfall.
-- @column ns          BIGINT   Time in the step, ns.
-- @column share_pct   DOUBLE   ns in percent of the step.
-- @column longest_ns  BIGINT   Duration of the longer of the two steps without what is negative, ns: the end of the scale of both.
-- @key    part name ns share_pct
-- @empty  no steps of this scope are compared; the query strata lists the steps of both sides
-- @chart  waterfall x=ns y=name color=part scale=longest_ns
-- @title  What the step is made of
WITH chosen AS (
    SELECT
        scope, part,
        CASE
            WHEN part = 'exposed_wait' THEN 'waiting'
            WHEN part = 'exposed_copy' THEN 'copies'
            WHEN part = 'exposed_transfer' THEN role || ' transfer'
            WHEN part = 'exposed_comm' THEN role || ' comm'
            WHEN cause IS NOT NULL THEN part || ': ' || cause
            ELSE COALESCE(role, replace(part, '_', ' '))
        END AS name,
        CASE WHEN $side::VARCHAR = 'base' THEN base_ns ELSE new_ns END AS ns,
        GREATEST(SUM(GREATEST(base_ns, 0)) OVER (), SUM(GREATEST(new_ns, 0)) OVER ()) AS longest_ns
    FROM waterfall
    WHERE scope = COALESCE($scope::VARCHAR, (SELECT scope.scope FROM scope WHERE scope.position = 0))
)
SELECT
    scope,
    $side::VARCHAR AS side,
    part, name,
    CAST(SUM(ns) AS BIGINT) AS ns,
    100.0 * SUM(ns) / NULLIF(SUM(SUM(ns)) OVER (), 0) AS share_pct,
    CAST(ANY_VALUE(longest_ns) AS BIGINT) AS longest_ns
FROM chosen
GROUP BY scope, part, name
HAVING SUM(ns) <> 0
ORDER BY
    list_position(
        ['computing', 'exposed_transfer', 'exposed_comm', 'exposed_wait', 'exposed_copy', 'idle', 'other_step'], part
    ),
    SUM(ns) DESC,
    name
