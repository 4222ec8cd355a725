-- One row per scope, part, role and cause: by how much it makes the step of new longer than that of base.
--
-- The rows of a scope add up to the difference of the two steps, to the nanosecond. Where one side
-- does not know whether a role's operations wait, because not all ranks are loaded, the part is
-- exposed_comm on both sides: transfer and waiting together.
-- @column scope     VARCHAR  A phase, or all.
-- @column part      VARCHAR  computing, exposed_transfer, exposed_wait, exposed_comm, exposed_copy, idle or other_step, as in step_time; or median_less_mean, as in typical.
-- @column role      VARCHAR  Role; NULL in the parts idle and other_step.
-- @column cause     VARCHAR  Why the device is idle; NULL in all other parts.
-- @column base_ns   BIGINT   Time in the step of base, ns.
-- @column new_ns    BIGINT   Time in the step of new, ns.
-- @column delta_ns  BIGINT   new_ns - base_ns.
WITH unmatched AS (
    SELECT DISTINCT scope, role FROM typical WHERE part = 'exposed_unmatched'
),
found AS (
    SELECT
        typical.side, typical.scope,
        CASE
            WHEN unmatched.scope IS NOT NULL AND starts_with(typical.part, 'exposed_') AND typical.part <> 'exposed_copy'
                THEN 'exposed_comm'
            ELSE typical.part
        END AS part,
        typical.role, typical.cause, typical.ns
    FROM typical
    LEFT JOIN unmatched ON typical.scope = unmatched.scope AND typical.role = unmatched.role
)
SELECT
    scope, part, role, cause,
    CAST(COALESCE(SUM(ns) FILTER (side = 'base'), 0) AS BIGINT) AS base_ns,
    CAST(COALESCE(SUM(ns) FILTER (side = 'new'), 0) AS BIGINT) AS new_ns,
    CAST(COALESCE(SUM(ns) FILTER (side = 'new'), 0) - COALESCE(SUM(ns) FILTER (side = 'base'), 0) AS BIGINT) AS delta_ns
FROM found
GROUP BY scope, part, role, cause
ORDER BY scope, ABS(delta_ns) DESC, part, role, cause
