-- One row: what it costs that the host begins to prepare a step only when the device has ended the one before.
--
-- If both work at the same time, a step takes as long as the longer of them: that saves at most the time of
-- the shorter one, and at most what is lost to the host.
-- @kind   scratch
-- @scope  run
-- @needs  time_scale, time_unit
-- @column claims   STRUCT(unit BIGINT, ns BIGINT)[]  As causes claim it.
-- @column steps    BIGINT   Steps with such time, counted on one rank.
-- @column lost_ns  DOUBLE   Lost to the host per step and device, with the profiler, ns.
-- @column pct      DOUBLE   What may be saved of a step without the profiler (with it, if only that is known), percent.
-- @column rank     BIGINT   Rank with the longest such time.
-- @column ts       BIGINT   Its start, ns since the run's first event.
-- @column dur      BIGINT   Its duration, ns.
WITH lost AS (
    SELECT *
    FROM time_unit
    WHERE part = 'lost' AND cause IN ('host', 'sync') AND number IS NOT NULL
),
summed AS (
    SELECT
        lost.ns / (time_scale.devices * time_scale.steps) AS lost_ns,
        lost.ns / (time_scale.devices * time_scale.steps) * COALESCE(time_scale.scale, 1) AS remaining_ns,
        LEAST(1, time_scale.busy_ns / NULLIF(remaining_ns, 0)) AS share,
        time_scale.step_ns
    FROM time_scale
    CROSS JOIN (SELECT SUM(ns) AS ns FROM lost) AS lost
)
SELECT
    list({'unit': unit, 'ns': CAST(lost.ns * share AS BIGINT)} ORDER BY unit) AS claims,
    COUNT(DISTINCT number) AS steps,
    COALESCE(ANY_VALUE(summed.lost_ns), 0) AS lost_ns,
    COALESCE(ANY_VALUE(100 * share * remaining_ns / step_ns), 0) AS pct,
    arg_max(rank, longest_ns) AS rank,
    arg_max(longest_ts, longest_ns) AS ts,
    MAX(longest_ns) AS dur
FROM lost
CROSS JOIN summed
