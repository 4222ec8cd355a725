-- One row per step, part, role, layer and cause: how much of the step's GPU time it took.
--
-- The rows of a step add up to step.gpu_dur, to the nanosecond. Each nanosecond is credited to one kernel: of
-- the kernels that run and decide the part (see device_timeline), the one that began last. If that is not
-- a kernel of the step, the part is other_step. A kernel that others hide from start to end is in no row, as is
-- what runs before the steps before have ended (step.gpu_ts).
-- @scope  run
-- @needs  device_timeline, kernel, step
-- @column rank     BIGINT   Rank.
-- @column device   BIGINT   Number of the device on its machine.
-- @column step_id  BIGINT   Step (step.step_id).
-- @column part     VARCHAR  computing, exposed_transfer, exposed_wait, exposed_unmatched, exposed_copy or idle, as in device_timeline; or other_step: the time is credited to a kernel of another step, or of none.
-- @column role     VARCHAR  Role of the kernels that the time is credited to (kernel.role); NULL if unknown, and in the parts idle and other_step.
-- @column layer    BIGINT   Their layer (kernel.layer); NULL if unknown, outside layers, and in the parts idle and other_step.
-- @column cause    VARCHAR  Why the device is idle (gap.cause); NULL in all other parts.
-- @column ns       BIGINT   Time, ns.
-- @column kernels  BIGINT   Number of kernels that the time is credited to; NULL in the parts idle and other_step.
WITH span AS (
    SELECT
        rank, device, step_id, gpu_ts,
        gpu_ts + gpu_dur AS end_ts,
        LAG(step_id) OVER (PARTITION BY rank, device ORDER BY gpu_ts) AS step_before_id,
        LAG(gpu_ts + gpu_dur) OVER (PARTITION BY rank, device ORDER BY gpu_ts) AS end_before_ts
    FROM step
    WHERE gpu_dur > 0
),
-- Intervals never lie across the border of a span, because it is the start or the end of a kernel.
inside AS (
    SELECT span.*, device_timeline.ts, device_timeline.dur, device_timeline.part, device_timeline.cause, device_timeline.kernel_id
    FROM device_timeline
    ASOF INNER JOIN span
        ON device_timeline.rank = span.rank
        AND device_timeline.device = span.device
        AND device_timeline.ts >= span.gpu_ts
),
credited AS (
    SELECT rank, device, step_id, part, cause, kernel_id, SUM(dur) AS ns
    FROM (
        SELECT rank, device, step_id, part, cause, kernel_id, dur FROM inside WHERE ts < end_ts
        UNION ALL
        -- Where two spans overlap, the time counts for both.
        SELECT rank, device, step_before_id, part, cause, kernel_id, dur FROM inside WHERE ts < end_before_ts
    )
    GROUP BY ALL
),
placed AS (
    SELECT
        credited.rank, credited.device, credited.step_id, credited.cause, credited.ns,
        CASE WHEN credited.part = 'idle' OR own.id IS NOT NULL THEN credited.part ELSE 'other_step' END AS part,
        own.role, own.layer,
        own.id AS kernel_id
    FROM credited
    LEFT JOIN kernel AS own ON credited.kernel_id = own.id AND credited.step_id = own.step_id
)
SELECT
    rank, device, step_id, part, role, layer, cause,
    CAST(SUM(ns) AS BIGINT) AS ns,
    NULLIF(COUNT(kernel_id), 0) AS kernels
FROM placed
GROUP BY rank, device, step_id, part, role, layer, cause
ORDER BY rank, device, step_id, part, layer, role, cause
