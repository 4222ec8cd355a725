-- One row per rank and instant at which the number of queued kernels changes.
--
-- A kernel is queued from the beginning of its launch call to its start. A graph launch queues all
-- its kernels at once. Ranks on which the clocks of host and GPU do not agree have no rows.
-- @scope  run
-- @needs  host_clock, kernel, launch
-- @column rank    BIGINT  Rank.
-- @column ts      BIGINT  Time, ns since the run's first event.
-- @column queued  BIGINT  Number of kernels that are launched and have not started, from this instant on.
WITH change AS (
    SELECT rank, ts, SUM(delta) AS delta
    FROM (
        SELECT launch.rank, launch.ts, called.kernels AS delta
        FROM (SELECT launch_id, COUNT(*) AS kernels FROM kernel WHERE ts IS NOT NULL GROUP BY launch_id) AS called
        INNER JOIN launch ON called.launch_id = launch.id
        WHERE launch.ts IS NOT NULL
        UNION ALL
        SELECT kernel.rank, GREATEST(kernel.ts, launch.ts), -1
        FROM kernel
        INNER JOIN launch ON kernel.launch_id = launch.id
        WHERE kernel.ts IS NOT NULL AND launch.ts IS NOT NULL
    )
    WHERE rank IN (SELECT rank FROM host_clock WHERE agrees)
    GROUP BY rank, ts
)
SELECT
    rank, ts,
    CAST(SUM(delta) OVER (PARTITION BY rank ORDER BY ts ROWS UNBOUNDED PRECEDING) AS BIGINT) AS queued
FROM change
ORDER BY rank, ts, queued
