-- One row per part of the step: by how much it makes the step of new longer than that of base.
--
-- Use it to see what became slower and what became faster. delta_ns adds up to the change of the step,
-- to the nanosecond: time in which a role computes or transfers, waiting for late ranks, copies, and idle
-- time by cause. The times are those of the run of median step time on each side. change_pct, its interval
-- and its verdict are of all runs: of the role where the row has one, else of the part. A role that
-- computes and transfers has them in the row with more of its time.
-- @param  scope         VARCHAR = NULL  Phase whose step it is, or all; the phase that takes most of base's time by default.
-- @param  by            VARCHAR = role  One row per role and cause, or one per part.
-- @values by            role part
-- @column scope         VARCHAR  Phase of the step, or all.
-- @column part          VARCHAR  computing, exposed_transfer, exposed_wait, exposed_comm (transfer and waiting together, where one side cannot separate them), exposed_copy, idle, other_step, or median_less_mean (by how much the median step is longer than the mean of the typical steps, whose parts these are).
-- @column name          VARCHAR  The row for people: the role, or "idle: host", "attn_allreduce transfer", "waiting"; the part with --by part.
-- @column role          VARCHAR  Role; NULL if the row has none.
-- @column cause         VARCHAR  Why the device is idle; NULL in all other rows.
-- @column base_ns       BIGINT   Time in the step of base, ns.
-- @column new_ns        BIGINT   Time in the step of new, ns.
-- @column delta_ns      BIGINT   new_ns - base_ns, ns.
-- @column delta_pct     DOUBLE   delta_ns in percent of the step of base.
-- @column change_pct    DOUBLE   Change of the role or part from base to new over all runs, percent; of idle time and waiting, and where a run has none, in percent of the step.
-- @column low_pct       DOUBLE   Lower end of its 95% interval, percent; NULL with fewer than four runs on a side.
-- @column high_pct      DOUBLE   Upper end of it, percent.
-- @column percent_of    VARCHAR  itself or step: what change_pct is a part of.
-- @column verdict       VARCHAR  faster, slower, no change, inconclusive, no verdict, not comparable, new (only new has the role) or gone.
-- @column reason        VARCHAR  Why it is not more.
-- @column base_kernels  DOUBLE   Kernels of the role in a step of base, mean of the devices; NULL without a role.
-- @column new_kernels   DOUBLE   The same of new.
-- @key    name part base_ns new_ns delta_ns delta_pct verdict
-- @empty  no steps of this scope are compared; the query strata lists the steps of both sides
-- @chart  difference x=delta_ns y=name base=base_ns new=new_ns verdict=verdict
-- @title  What made the step longer or shorter
WITH chosen AS (
    SELECT
        scope, part,
        CASE WHEN $by::VARCHAR = 'role' AND part NOT IN ('exposed_wait', 'exposed_copy') THEN role END AS role,
        CASE WHEN $by::VARCHAR = 'role' THEN cause END AS cause,
        base_ns, new_ns
    FROM waterfall
    WHERE scope = COALESCE($scope::VARCHAR, (SELECT scope.scope FROM scope WHERE scope.position = 0))
),
summed AS (
    SELECT
        scope, part, role, cause,
        CAST(SUM(base_ns) AS BIGINT) AS base_ns,
        CAST(SUM(new_ns) AS BIGINT) AS new_ns
    FROM chosen
    GROUP BY ALL
),
named AS (
    SELECT
        *,
        CASE
            WHEN role IS NOT NULL AND part = 'exposed_transfer' THEN role || ' transfer'
            WHEN role IS NOT NULL AND part = 'exposed_comm' THEN role || ' comm'
            WHEN role IS NOT NULL THEN role
            WHEN cause IS NOT NULL THEN part || ': ' || cause
            WHEN $by::VARCHAR = 'part' THEN part
            WHEN part = 'exposed_wait' THEN 'waiting'
            WHEN part = 'exposed_copy' THEN 'copies'
            ELSE replace(part, '_', ' ')
        END AS name,
        CASE
            WHEN role IS NOT NULL THEN role
            WHEN cause IS NOT NULL THEN part || '.' || cause
            ELSE part
        END AS metric,
        CASE WHEN role IS NOT NULL THEN 'role' ELSE 'part' END AS kind,
        ROW_NUMBER() OVER (PARTITION BY role ORDER BY base_ns + new_ns DESC, part) AS place_in_role
    FROM summed
)
SELECT
    named.scope, named.part, named.name, named.role, named.cause, named.base_ns, named.new_ns,
    named.new_ns - named.base_ns AS delta_ns,
    100.0 * (named.new_ns - named.base_ns) / NULLIF(SUM(named.base_ns) OVER (), 0) AS delta_pct,
    change.change_pct, change.low_pct, change.high_pct, change.percent_of, change.verdict,
    change.reason, change.base_kernels, change.new_kernels
FROM named
LEFT JOIN change
    ON
        named.scope = change.scope
        AND named.metric = change.metric
        AND named.kind = change.kind
        AND (named.role IS NULL OR named.place_in_role = 1)
ORDER BY ABS(named.new_ns - named.base_ns) DESC, named.part, named.name
