-- One row per role: the time of its kernels on both sides, without waiting for late ranks.
--
-- Roles stay the same when kernels are replaced, so they compare where names do not (the query kernels
-- has these). Times that overlap count in each role. If one side runs a role inside the kernel of
-- another role, together is the sum of the two, which is what compares.
-- @param  scope             VARCHAR = NULL  Phase of the steps, or all; the phase that takes most of base's time by default.
-- @param  limit             INTEGER = 0     Maximum number of rows.
-- @column scope             VARCHAR  Phase of the steps, or all.
-- @column role              VARCHAR  Part of the model; other if unknown.
-- @column base_ns           DOUBLE   Time in a step of base, mean of the devices, median of the runs, ns.
-- @column new_ns            DOUBLE   The same of new, ns.
-- @column delta_ns          DOUBLE   new_ns - base_ns, ns.
-- @column change_pct        DOUBLE   Change from base to new, percent.
-- @column low_pct           DOUBLE   Lower end of its 95% interval, percent; NULL with fewer than four runs on a side.
-- @column high_pct          DOUBLE   Upper end of it, percent.
-- @column percent_of        VARCHAR  itself or step: what change_pct is a part of.
-- @column verdict           VARCHAR  faster, slower, no change, inconclusive, no verdict, not comparable, new (only new has the role) or gone.
-- @column reason            VARCHAR  Why it is not more.
-- @column base_kernels      DOUBLE   Kernels in a step of base, mean of the devices.
-- @column new_kernels       DOUBLE   The same of new.
-- @column together          VARCHAR  The role and the one whose kernels do its work on one side; NULL if no such role is known.
-- @column together_pct      DOUBLE   Change of both together, percent.
-- @column together_verdict  VARCHAR  The verdict on both together.
-- @key    role base_ns new_ns delta_ns change_pct low_pct high_pct verdict
-- @empty  no steps of this scope are compared, or they have no kernels; the query strata lists the steps of both sides
-- @chart  dumbbell x=base_ns,new_ns y=role color=verdict
-- @title  Roles, base against new
WITH grouped AS (
    SELECT scope, string_split(metric, '+')[1] AS role, metric, change_pct, verdict
    FROM change
    WHERE kind = 'group'
)
SELECT
    change.scope,
    change.metric AS role,
    change.base AS base_ns,
    change.new AS new_ns,
    change.new - change.base AS delta_ns,
    change.change_pct, change.low_pct, change.high_pct, change.percent_of, change.verdict,
    change.reason, change.base_kernels, change.new_kernels,
    grouped.metric AS together,
    grouped.change_pct AS together_pct,
    grouped.verdict AS together_verdict
FROM change
LEFT JOIN grouped ON change.scope = grouped.scope AND change.metric = grouped.role
WHERE
    change.kind = 'role'
    AND change.scope = COALESCE($scope::VARCHAR, (SELECT scope.scope FROM scope WHERE scope.position = 0))
    AND (change.base > 0 OR change.new > 0)
ORDER BY ABS(change.new - change.base) DESC, change.metric
LIMIT $limit::INTEGER
