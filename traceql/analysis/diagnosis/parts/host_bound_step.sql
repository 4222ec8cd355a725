-- One row per rank and step that counts: the first and the last step do not, unless there are no others.
-- @kind   scratch
-- @scope  run
-- @needs  engine_step, step_count, time_scale
-- @column step_id     BIGINT   Step (step.step_id).
-- @column number      BIGINT   Its number on its rank.
-- @column phase       VARCHAR  As in step.
-- @column graph_mode  VARCHAR  As in step.
-- @column busy_ns     BIGINT   Work of its device, ns.
-- @column lost_ns     DOUBLE   What the hosts of all ranks cost a device in steps of that number, with the profiler, ns.
-- @column is_bound    BOOLEAN  Whether that is more than a tenth of the work, without the profiler where that was measured.
WITH inner_step AS (
    SELECT engine_step.*
    FROM engine_step
    CROSS JOIN step_count
    WHERE NOT engine_step.is_edge OR step_count.inner_steps = 0
),
compared AS (
    SELECT
        inner_step.*,
        -- A step of one rank may cost the devices of the others more than its own.
        SUM(inner_step.host_lost_ns) OVER same_number / time_scale.devices AS lost_ns,
        AVG(inner_step.busy_ns) OVER same_number AS mean_busy_ns,
        COALESCE(time_scale.scale, 1) AS scale
    FROM inner_step
    CROSS JOIN time_scale
    WINDOW same_number AS (PARTITION BY inner_step.number)
)
SELECT step_id, number, phase, graph_mode, busy_ns, lost_ns, lost_ns * scale > 0.1 * mean_busy_ns AS is_bound
FROM compared
