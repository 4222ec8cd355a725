-- One row per step, device, part, role, layer and cause: how much of the step's GPU span it took.
--
-- The rows of a step and device add up to step.gpu_dur, to the nanosecond. A step has rows for each
-- device on which it has kernels. Each nanosecond is credited to one kernel: of the kernels that
-- run and decide the part (see device_part), the one that began last. If that is not a kernel of the
-- step, the part is other_step. A kernel that others hide from start to end is in no row.
-- @scope  run
-- @needs  device_part, kernel, step, step_idle
-- @column rank     BIGINT   Rank.
-- @column device   BIGINT   Number of the device on its machine.
-- @column step_id  BIGINT   Step (step.step_id).
-- @column part     VARCHAR  computing, exposed_transfer, exposed_wait, exposed_unmatched, exposed_copy or idle, as in device_part; or other_step: the time is credited to a kernel of another step, or of none.
-- @column role     VARCHAR  Role of the kernels that the time is credited to (kernel.role); NULL if unknown, and in the parts idle and other_step.
-- @column layer    BIGINT   Their layer (kernel.layer); NULL if unknown, outside layers, and in the parts idle and other_step.
-- @column cause    VARCHAR  Why the device is idle (gap.cause); NULL in all other parts.
-- @column ns       BIGINT   Time, ns.
-- @column kernels  BIGINT   Number of kernels that the time is credited to; NULL in the parts idle and other_step.
WITH credited AS (
    SELECT kernel_id AS id, part, SUM(dur) AS ns
    FROM device_part
    WHERE kernel_id IS NOT NULL
    GROUP BY kernel_id, part
),
own AS (
    SELECT
        kernel.rank,
        kernel.device,
        kernel.step_id,
        credited.part,
        kernel.role,
        kernel.layer,
        SUM(credited.ns) AS ns,
        COUNT(*) AS kernels
    FROM credited
    INNER JOIN kernel USING (id)
    WHERE kernel.step_id IS NOT NULL
    GROUP BY kernel.rank, kernel.device, kernel.step_id, credited.part, kernel.role, kernel.layer
),
known AS (
    SELECT rank, device, step_id, part, role, layer, NULL AS cause, ns, kernels FROM own
    UNION ALL
    SELECT rank, device, step_id, 'idle', NULL, NULL, cause, ns, NULL FROM step_idle
),
place AS (
    SELECT DISTINCT rank, device, step_id FROM kernel WHERE step_id IS NOT NULL
),
-- The rest of the GPU span: there is nothing in it but own kernels, idle time, and kernels of others.
other AS (
    SELECT
        place.rank,
        place.device,
        place.step_id,
        ANY_VALUE(step.gpu_dur) - COALESCE(SUM(known.ns), 0) AS ns
    FROM place
    INNER JOIN step ON place.step_id = step.step_id
    LEFT JOIN known ON place.step_id = known.step_id AND place.device = known.device
    GROUP BY place.rank, place.device, place.step_id
)
SELECT rank, device, step_id, part, role, layer, cause, CAST(ns AS BIGINT) AS ns, kernels
FROM known
UNION ALL
SELECT rank, device, step_id, 'other_step', NULL, NULL, NULL, CAST(ns AS BIGINT), NULL
FROM other
WHERE ns <> 0
ORDER BY rank, device, step_id, part, layer, role, cause
