-- One row per interval of device_state: what the device's time was spent on, in the words of straggler.cause and step.critical.
-- @kind   view
-- @scope  rank
-- @needs  device_state, gap
-- @column rank      BIGINT   Rank.
-- @column device    BIGINT   Device number on its host.
-- @column ts        BIGINT   Start, ns since trace.base_time_ns.
-- @column dur       BIGINT   Duration, ns.
-- @column spent_on  VARCHAR  kernel (a compute kernel ran), communication (only communication kernels, perhaps beside copies), copy, host (idle: gap of cause host or sync), or launch (idle: any other cause).
SELECT
    device_state.rank,
    device_state.device,
    device_state.ts,
    device_state.dur,
    CASE
        WHEN device_state.compute THEN 'kernel'
        WHEN device_state.comm THEN 'communication'
        WHEN device_state.copy THEN 'copy'
        WHEN gap.cause IN ('host', 'sync') THEN 'host'
        ELSE 'launch'
    END AS spent_on
FROM device_state
LEFT JOIN gap USING (rank, device, ts)
