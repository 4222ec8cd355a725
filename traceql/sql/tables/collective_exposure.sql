-- One row per collective or point-to-point operation on one rank: how much of it compute kernels overlapped, and what the rest was.
-- @scope  run
-- @needs  collective, device_state, kernel
-- @column kernel_id            BIGINT  Kernel of the operation (kernel.id).
-- @column hidden_ns            BIGINT  Overlapped time: the part of its duration in which a compute kernel ran on the same device, ns.
-- @column exposed_ns           BIGINT  The rest of its duration, ns: the sum of exposed_wait_ns and exposed_transfer_ns if the operation was matched.
-- @column exposed_wait_ns      BIGINT  Part of its wait time that no compute kernel overlapped, ns; NULL unless it was matched on all its ranks.
-- @column exposed_transfer_ns  BIGINT  Part of its transfer time that no compute kernel overlapped, ns; NULL unless it was matched on all its ranks.
WITH overlapped_part AS (
    SELECT rank, device, ts, dur, CAST(SUM(dur) OVER in_order - dur AS BIGINT) AS before_ns
    FROM device_state
    WHERE compute AND comm
    WINDOW in_order AS (PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING)
),
point AS (
    SELECT
        kernel.id, kernel.rank, kernel.device, kernel.dur, collective.wait_ns,
        UNNEST([
            {'at_ts': kernel.ts, 'sign': -1, 'wait_sign': -1},
            {'at_ts': kernel.ts + COALESCE(collective.wait_ns, 0), 'sign': 0, 'wait_sign': 1},
            {'at_ts': kernel.ts + kernel.dur, 'sign': 1, 'wait_sign': 0}
        ], recursive := TRUE)
    FROM kernel
    LEFT JOIN collective ON kernel.id = collective.kernel_id
    WHERE kernel.category = 'collective'
),
-- How long compute kernels had overlapped communication until each point.
overlap_until AS (
    SELECT point.*, COALESCE(last.before_ns + LEAST(point.at_ts - last.ts, last.dur), 0) AS ns
    FROM point
    ASOF LEFT JOIN overlapped_part AS last
        ON point.rank = last.rank
        AND point.device = last.device
        AND point.at_ts >= last.ts
),
overlapped AS (
    SELECT
        id AS kernel_id,
        ANY_VALUE(dur) AS dur,
        ANY_VALUE(wait_ns) AS wait_ns,
        CAST(SUM(sign * ns) AS BIGINT) AS hidden_ns,
        CAST(SUM(wait_sign * ns) AS BIGINT) AS hidden_wait_ns
    FROM overlap_until
    GROUP BY id
)
SELECT
    kernel_id, hidden_ns,
    dur - hidden_ns AS exposed_ns,
    wait_ns - hidden_wait_ns AS exposed_wait_ns,
    dur - wait_ns - (hidden_ns - hidden_wait_ns) AS exposed_transfer_ns
FROM overlapped
ORDER BY kernel_id
