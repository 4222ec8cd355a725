-- One row per scope and cause of the difference, for people: roles, transfer, waiting, copies and idle time.
--
-- The rows of a scope add up to the difference of the two steps, to the nanosecond. Roles that one
-- side runs in one kernel with another role are one row. A role that computes and transfers has its
-- change, verdict and kernels, which are of all its time, in the row with more of it.
-- @column scope         VARCHAR  A phase, or all.
-- @column cause         VARCHAR  What takes the time: a role, waiting, copies, idle: CAUSE or other steps.
-- @column kind          VARCHAR  computing, transfer, communication (transfer and waiting, where waiting is unknown), waiting, copies, idle, other steps, or spread: what the median step is longer than the mean of the typical ones.
-- @column metric        VARCHAR  Its row in table change.
-- @column base_ns       BIGINT   Time in the step of base, ns.
-- @column new_ns        BIGINT   Time in the step of new, ns.
-- @column delta_ns      BIGINT   new_ns - base_ns.
-- @column change_pct    DOUBLE   Change of all runs (change.change_pct), percent of itself, or of the step if it was 0 in a run.
-- @column low_pct       DOUBLE   Lower end of its 95% interval; NULL with too few runs.
-- @column high_pct      DOUBLE   Upper end.
-- @column percent_of    VARCHAR  itself or step.
-- @column verdict       VARCHAR  Verdict (change.verdict).
-- @column base_kernels  DOUBLE   Kernels in a step of base; NULL unless it is a role.
-- @column new_kernels   DOUBLE   Kernels in a step of new; NULL unless it is a role.
WITH fused AS (
    SELECT scope, metric, UNNEST(string_split(metric, '+')) AS role FROM change WHERE kind = 'group'
),
found AS (
    SELECT
        waterfall.scope,
        CASE waterfall.part
            WHEN 'exposed_transfer' THEN 'transfer'
            WHEN 'exposed_comm' THEN 'communication'
            WHEN 'exposed_wait' THEN 'waiting'
            WHEN 'exposed_copy' THEN 'copies'
            WHEN 'other_step' THEN 'other steps'
            WHEN 'median_less_mean' THEN 'spread'
            ELSE waterfall.part
        END AS kind,
        CASE waterfall.part
            WHEN 'exposed_wait' THEN 'exposed_wait'
            WHEN 'exposed_copy' THEN 'exposed_copy'
            WHEN 'other_step' THEN 'other_step'
            WHEN 'median_less_mean' THEN 'median_less_mean'
            WHEN 'idle' THEN 'idle.' || waterfall.cause
            ELSE COALESCE(fused.metric, waterfall.role)
        END AS metric,
        waterfall.cause, waterfall.base_ns, waterfall.new_ns
    FROM waterfall
    LEFT JOIN fused ON waterfall.scope = fused.scope AND waterfall.role = fused.role
),
summed AS (
    SELECT
        scope, kind, metric,
        CASE
            WHEN kind IN ('waiting', 'copies', 'other steps') THEN kind
            WHEN kind = 'spread' THEN 'median less mean of the steps'
            WHEN kind = 'idle' THEN 'idle: ' || ANY_VALUE(cause)
            ELSE REPLACE(metric, '+', ' + ')
        END AS cause,
        CAST(SUM(base_ns) AS BIGINT) AS base_ns,
        CAST(SUM(new_ns) AS BIGINT) AS new_ns
    FROM found
    GROUP BY scope, kind, metric
),
placed AS (
    SELECT
        *,
        ROW_NUMBER() OVER (PARTITION BY scope, metric ORDER BY base_ns + new_ns DESC, kind) AS place_in_metric
    FROM summed
)
SELECT
    placed.scope, placed.cause, placed.kind, placed.metric, placed.base_ns, placed.new_ns,
    placed.new_ns - placed.base_ns AS delta_ns,
    change.change_pct, change.low_pct, change.high_pct, change.percent_of, change.verdict,
    change.base_kernels, change.new_kernels
FROM placed
LEFT JOIN change
    ON
        placed.scope = change.scope
        AND placed.metric = change.metric
        AND placed.place_in_metric = 1
ORDER BY placed.scope, ABS(delta_ns) DESC, placed.cause, placed.kind
