-- Samples of the memory bandwidth and of the FLOP rate that each GPU achieved, at each change: useful
-- FLOPs and compulsory bytes of a role, spread over the time of its kernels. Work that is unknown
-- is not in them.
WITH device_count AS (
    SELECT rank, COUNT(DISTINCT device) AS devices FROM kernel GROUP BY rank
),
-- Whole MB/s and GFLOP/s, so that sums of what begins and what ends are exact.
rate AS (
    SELECT
        kernel.rank, kernel.device, kernel.ts,
        kernel.ts + kernel.dur AS end_ts,
        COALESCE(CAST(1e3 * cost.hbm_bytes / cost.dur_ns AS BIGINT), 0) AS mbps,
        COALESCE(CAST(cost.flops / cost.dur_ns AS BIGINT), 0) AS gflops
    FROM kernel
    INNER JOIN cost
        ON kernel.rank = cost.rank
        AND kernel.step_id = cost.step_id
        AND kernel.layer IS NOT DISTINCT FROM cost.layer
        AND kernel.role = cost.role
    WHERE kernel.dur > 0 AND (cost.hbm_bytes > 0 OR cost.flops > 0)
),
change AS (
    SELECT rank, device, ts, SUM(mbps) AS mbps, SUM(gflops) AS gflops
    FROM (
        SELECT rank, device, ts, mbps, gflops FROM rate
        UNION ALL
        SELECT rank, device, end_ts, -mbps, -gflops FROM rate
    )
    GROUP BY rank, device, ts
),
level AS (
    SELECT
        rank, device, ts,
        SUM(mbps) OVER in_order AS mbps,
        SUM(gflops) OVER in_order AS gflops
    FROM change
    WINDOW in_order AS (PARTITION BY rank, device ORDER BY ts)
),
of_device AS (
    SELECT
        level.*,
        CASE WHEN device_count.devices > 1 THEN ' · GPU ' || level.device ELSE '' END AS label
    FROM level
    INNER JOIN device_count USING (rank)
),
sample AS (
    SELECT rank, 'Achieved bandwidth' || label AS track, ts, mbps / 1e3 AS value, 'GB/s' AS unit
    FROM of_device
    UNION ALL
    SELECT rank, 'Achieved FLOP rate' || label, ts, gflops / 1e3, 'TFLOP/s'
    FROM of_device
)
SELECT *
FROM sample
QUALIFY value IS DISTINCT FROM LAG(value) OVER (PARTITION BY rank, track ORDER BY ts)
ORDER BY rank, track, ts
