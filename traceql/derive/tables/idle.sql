-- One row per interval in which a device did nothing, with the kernels before and after it.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, device_state
-- @column rank                BIGINT  Rank.
-- @column device              BIGINT  Number of the device on its machine.
-- @column ts                  BIGINT  Start, ns since the run's first event.
-- @column dur                 BIGINT  Duration, ns.
-- @column previous_kernel_id  BIGINT  Kernel that ended when the interval began; NULL at the start of the GPU span.
-- @column next_kernel_id      BIGINT  Kernel that ended the interval; NULL at the end of the GPU span.
WITH idle AS (
    SELECT rank, device, ts, dur, ts + dur AS end_ts
    FROM device_state
    WHERE NOT (compute OR comm OR copy)
),
before AS (
    SELECT idle.rank, idle.device, idle.ts, MAX(kernel.id) AS id
    FROM idle
    INNER JOIN classified_kernel AS kernel
        ON
            idle.rank = kernel.rank AND idle.device = kernel.device
            AND idle.ts = kernel.ts + GREATEST(kernel.dur, 0)
    GROUP BY idle.rank, idle.device, idle.ts
),
after AS (
    SELECT idle.rank, idle.device, idle.end_ts, MIN(kernel.id) AS id
    FROM idle
    INNER JOIN classified_kernel AS kernel
        ON idle.rank = kernel.rank AND idle.device = kernel.device AND idle.end_ts = kernel.ts
    GROUP BY idle.rank, idle.device, idle.end_ts
)
SELECT
    idle.rank,
    idle.device,
    idle.ts,
    idle.dur,
    before.id AS previous_kernel_id,
    after.id AS next_kernel_id
FROM idle
LEFT JOIN before USING (rank, device, ts)
LEFT JOIN after USING (rank, device, end_ts)
ORDER BY idle.rank, idle.device, idle.ts
