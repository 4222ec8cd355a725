-- One row per run with GPU activity: how long a step takes with and without the profiler, and what of it is lost.
--
-- Steps are those with work (phase not idle). A recording without steps counts as one step. Kernels take as
-- long without the profiler; so what a step takes less without it, it loses less.
-- @scope  run
-- @needs  run, step, time_unit
-- @column ranks          BIGINT  Ranks with GPU activity.
-- @column devices        BIGINT  Devices of all ranks.
-- @column steps          BIGINT  Steps of a rank; the most of all ranks.
-- @column profiled_ns    DOUBLE  Mean time of a step on a device, with the profiler, ns.
-- @column busy_ns        DOUBLE  Of it, time in which kernels compute or move data, ns.
-- @column lost_ns        DOUBLE  The rest, ns.
-- @column unprofiled_ns  DOUBLE  Mean time of a step without the profiler, ns; NULL if that was not measured.
-- @column scale          DOUBLE  What remains of lost time without the profiler, 0 to 1; NULL if that was not measured.
-- @column step_ns        DOUBLE  unprofiled_ns, or else profiled_ns.
WITH spent AS (
    SELECT
        CAST(SUM(ns) AS DOUBLE) AS ns,
        COALESCE(SUM(ns) FILTER (part = 'lost'), 0) AS lost_ns,
        COUNT(DISTINCT {'rank': rank, 'device': device}) AS devices,
        COUNT(DISTINCT rank) AS ranks
    FROM time_unit
),
counted AS (
    SELECT COALESCE(MAX(steps), 1) AS steps
    FROM (
        SELECT COUNT(DISTINCT number) AS steps
        FROM step
        WHERE gpu_dur IS NOT NULL AND phase IS DISTINCT FROM 'idle'
        GROUP BY rank
    )
),
overhead AS (
    SELECT AVG(unprofiled_ns / profiled_ns) AS share
    FROM run
    WHERE profiled_ns > 0 AND unprofiled_ns > 0
)
SELECT
    spent.ranks, spent.devices, counted.steps,
    spent.ns / (spent.devices * counted.steps) AS profiled_ns,
    (spent.ns - spent.lost_ns) / (spent.devices * counted.steps) AS busy_ns,
    spent.lost_ns / (spent.devices * counted.steps) AS lost_ns,
    CASE
        WHEN overhead.share IS NOT NULL THEN GREATEST(overhead.share * spent.ns, spent.ns - spent.lost_ns) / (spent.devices * counted.steps)
    END AS unprofiled_ns,
    CASE
        WHEN overhead.share IS NOT NULL AND spent.lost_ns > 0
            THEN LEAST(1, (unprofiled_ns - busy_ns) * spent.devices * counted.steps / spent.lost_ns)
    END AS scale,
    COALESCE(unprofiled_ns, profiled_ns) AS step_ns
FROM spent
CROSS JOIN counted
CROSS JOIN overhead
WHERE spent.ns > 0
