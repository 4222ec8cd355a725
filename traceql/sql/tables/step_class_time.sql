-- One row per class of steps, part, role and cause: what its typical step spends the GPU's time on.
--
-- The rows of a class add up to step_class.gpu_ns. If a rank has several devices, they are averaged.
-- @scope  run
-- @needs  step_class, step_time
-- @empty_unless step_class
-- @column class_id  BIGINT   Class of steps (step_class.class_id).
-- @column part      VARCHAR  As in step_time: computing, exposed_transfer, exposed_wait, exposed_unmatched, exposed_copy, idle or other_step.
-- @column role      VARCHAR  Role of the kernels (kernel.role); NULL if unknown, and in the parts idle and other_step.
-- @column cause     VARCHAR  Why the device is idle (gap.cause); NULL in all other parts.
-- @column ns        DOUBLE   Mean time of a step, ns.
-- @column kernels   DOUBLE   Mean number of kernels of a step that the time is credited to; NULL in the parts idle and other_step.
WITH member AS (SELECT class_id, UNNEST(step_ids) AS step_id FROM step_class),
observed AS (
    SELECT class_id, COUNT(*) AS devices
    FROM (
        SELECT DISTINCT member.class_id, member.step_id, step_time.device
        FROM member
        INNER JOIN step_time USING (step_id)
    )
    GROUP BY class_id
)
SELECT
    member.class_id, step_time.part, step_time.role, step_time.cause,
    CAST(SUM(step_time.ns) AS DOUBLE) / ANY_VALUE(observed.devices) AS ns,
    CAST(SUM(step_time.kernels) AS DOUBLE) / ANY_VALUE(observed.devices) AS kernels
FROM member
INNER JOIN step_time USING (step_id)
INNER JOIN observed ON member.class_id = observed.class_id
GROUP BY member.class_id, step_time.part, step_time.role, step_time.cause
ORDER BY ALL
