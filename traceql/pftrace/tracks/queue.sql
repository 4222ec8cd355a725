-- Samples of the number of kernels that were launched but had not started yet, at each change.
WITH queued AS (
    SELECT kernel.rank, launch.ts, GREATEST(kernel.ts, launch.ts) AS start_ts
    FROM kernel
    INNER JOIN launch ON kernel.launch_id = launch.id
),
change AS (
    SELECT rank, ts, SUM(delta) AS delta
    FROM (
        SELECT rank, ts, 1 AS delta FROM queued
        UNION ALL
        SELECT rank, start_ts, -1 FROM queued
    )
    GROUP BY rank, ts
)
SELECT
    rank,
    'Launch queue' AS track,
    ts,
    CAST(SUM(delta) OVER (PARTITION BY rank ORDER BY ts ROWS UNBOUNDED PRECEDING) AS DOUBLE) AS value,
    'kernels' AS unit
FROM change
ORDER BY rank, ts
