-- One row per interval of device_state: what the device spent the time on.
--
-- The values are the ones that straggler.cause and the query step.critical use.
-- @kind   view
-- @scope  rank
-- @needs  device_state, gap
-- @column rank      BIGINT   Rank.
-- @column device    BIGINT   Number of the device on its machine.
-- @column ts        BIGINT   Start, ns since the run's first event.
-- @column dur       BIGINT   Duration, ns.
-- @column spent_on  VARCHAR  kernel (a compute kernel ran), communication (a communication kernel ran, but no compute kernel), copy (only copies ran), host (idle because the host had launched nothing: gap causes host and sync) or launch (idle for any other cause).
SELECT
    device_state.rank,
    device_state.device,
    device_state.ts,
    device_state.dur,
    CASE
        WHEN device_state.compute THEN 'kernel'
        WHEN device_state.comm THEN 'communication'
        WHEN device_state.copy THEN 'copy'
        WHEN host_gap.ts IS NOT NULL THEN 'host'
        ELSE 'launch'
    END AS spent_on
FROM device_state
LEFT JOIN (FROM gap WHERE cause IN ('host', 'sync')) AS host_gap USING (rank, device, ts)
