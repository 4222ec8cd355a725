-- One row per collective or point-to-point operation on one rank: how much of it compute kernels overlapped.
-- @kind   view
-- @scope  run
-- @needs  device_state, kernel
-- @column kernel_id  BIGINT  Kernel of the operation (kernel.id).
-- @column hidden_ns  BIGINT  Overlapped time: the part of its duration in which a compute kernel ran on the same device, ns.
-- The overlapped time up to an instant is a running total. That of an operation is the total at its
-- end minus the total at its start.
WITH computing AS (
    SELECT
        rank,
        device,
        ts,
        dur,
        SUM(dur) OVER (
            PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING
        ) - dur AS before_ns
    FROM device_state
    WHERE comm AND compute
),
point AS (
    SELECT kernel.id, kernel.rank, kernel.device, kernel.ts, -1 AS sign
    FROM kernel
    WHERE kernel.category = 'collective'
    UNION ALL
    SELECT kernel.id, kernel.rank, kernel.device, kernel.ts + kernel.dur, 1
    FROM kernel
    WHERE kernel.category = 'collective'
)
SELECT
    point.id AS kernel_id,
    CAST(SUM(point.sign * COALESCE(
        computing.before_ns + LEAST(point.ts - computing.ts, computing.dur), 0
    )) AS BIGINT) AS hidden_ns
FROM point
ASOF LEFT JOIN computing
    ON point.rank = computing.rank
    AND point.device = computing.device
    AND point.ts >= computing.ts
GROUP BY point.id
