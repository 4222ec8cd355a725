-- One row per collective or point-to-point operation on one rank: how much of it compute kernels overlapped.
-- @kind   view
-- @scope  run
-- @needs  comm_until, kernel, overlap_until_ns
-- @column kernel_id  BIGINT  Kernel of the operation (kernel.id).
-- @column hidden_ns  BIGINT  Overlapped time: the part of its duration in which a compute kernel ran on the same device, ns.
WITH point AS (
    SELECT id, rank, device, ts AS at_ts, -1 AS sign
    FROM kernel
    WHERE category = 'collective'
    UNION ALL
    SELECT id, rank, device, ts + dur, 1
    FROM kernel
    WHERE category = 'collective'
)
SELECT
    point.id AS kernel_id,
    CAST(SUM(point.sign * overlap_until_ns(last, point.at_ts)) AS BIGINT) AS hidden_ns
FROM point
ASOF LEFT JOIN comm_until AS last
    ON point.rank = last.rank
    AND point.device = last.device
    AND point.at_ts >= last.ts
GROUP BY point.id
