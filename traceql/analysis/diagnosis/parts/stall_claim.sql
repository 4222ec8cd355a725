-- One row per kind of stall: how much time it cost, and what of each unit of time a cause may claim for it.
--
-- The share of a step's own idle time that lies in stalls is also that of the waiting of other ranks for
-- this step. Stalls in the first and last steps do not count, except waits: code that waits does so in each step.
-- @kind   scratch
-- @scope  run
-- @needs  host_stall, step, time_unit
-- @column kind    VARCHAR  As in host_stall; sync is only waits within a step, and "end" those between steps.
-- @column calls   BIGINT   Stalls in which a device was idle.
-- @column steps   BIGINT   Steps with such, counted on one rank.
-- @column ranks   BIGINT   Ranks with such.
-- @column name    VARCHAR  Name of the calls that cost the most.
-- @column ns      DOUBLE   What all of them cost, waiting of other ranks included, ns.
-- @column claims  STRUCT(unit BIGINT, ns BIGINT)[]  As causes claim it.
-- @column rank    BIGINT   Where the longest is.
-- @column ts      BIGINT   Its start, ns since the run's first event.
-- @column dur     BIGINT   Its duration, ns.
WITH counted AS (
    SELECT
        CASE WHEN kind = 'sync' AND is_inside IS NOT TRUE THEN 'end' ELSE kind END AS kind,
        rank, step_id, root_step_id, name, ts, dur, idle_ns
    FROM host_stall
    WHERE idle_ns > 0 AND (kind = 'sync' OR NOT is_edge)
),
stalled AS (
    SELECT kind, root_step_id, SUM(idle_ns) AS ns
    FROM counted
    WHERE root_step_id IS NOT NULL
    GROUP BY kind, root_step_id
),
lost AS (
    SELECT unit, root_step_id, ns, SUM(ns) FILTER (NOT is_waiting) OVER (PARTITION BY root_step_id) AS own_ns
    FROM time_unit
    WHERE part = 'lost' AND cause IN ('host', 'sync')
),
claimed AS (
    SELECT
        stalled.kind,
        SUM(lost.ns * LEAST(1, stalled.ns / lost.own_ns)) AS ns,
        list({'unit': lost.unit, 'ns': CAST(lost.ns * LEAST(1, stalled.ns / lost.own_ns) AS BIGINT)} ORDER BY lost.unit) AS claims
    FROM stalled
    INNER JOIN lost USING (root_step_id)
    WHERE lost.own_ns > 0
    GROUP BY stalled.kind
),
named AS (
    SELECT kind, arg_max(name, ns) AS name
    FROM (SELECT kind, name, SUM(idle_ns) AS ns FROM counted GROUP BY kind, name)
    GROUP BY kind
),
summed AS (
    SELECT
        counted.kind,
        COUNT(*) AS calls,
        COUNT(DISTINCT step.number) AS steps,
        COUNT(DISTINCT counted.rank) AS ranks,
        arg_max(counted.rank, counted.idle_ns) AS rank,
        arg_max(counted.ts, counted.idle_ns) AS ts,
        arg_max(counted.dur, counted.idle_ns) AS dur
    FROM counted
    LEFT JOIN step ON counted.step_id = step.step_id
    GROUP BY counted.kind
)
SELECT
    summed.kind, summed.calls, summed.steps, summed.ranks, named.name,
    COALESCE(claimed.ns, 0) AS ns, claimed.claims, summed.rank, summed.ts, summed.dur
FROM summed
INNER JOIN named USING (kind)
LEFT JOIN claimed USING (kind)
