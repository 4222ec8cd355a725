-- One row per CUDA or HIP runtime or driver call on the host, whether it launches something or not.
--
-- A call belongs to the latest step that began before it. So what follows an annotation, such as
-- sampling and sends, belongs to its step until the next step begins. If a rank has several devices,
-- the step is that on the device of what the call started, or else on the first device.
-- @schema main
-- @scope  rank
-- @needs  activity, event_kind, iteration, recording_span, slice
-- @column id           BIGINT   Id of the call; the same number as slice.id.
-- @column rank         BIGINT   Rank that made the call.
-- @column ts           BIGINT   Start of the call on the host, ns since the run's first event; NULL if the file has a time that cannot be, such as 0 or another year (slice.ts has it).
-- @column dur          BIGINT   Duration of the call on the host, ns.
-- @column name         VARCHAR  Name of the call, such as cudaLaunchKernel.
-- @column tid          BIGINT   Id of the thread that made the call.
-- @column correlation  BIGINT   Number that the call shares with the GPU activities that it started.
-- @column step_id      BIGINT   Step in which the call was made (step.step_id); NULL before the first step, or if its time is unknown.
WITH call AS (
    SELECT
        slice.id, slice.rank,
        CASE
            WHEN span.rank IS NULL OR (slice.ts >= span.first_ts AND slice.ts + slice.dur <= span.last_ts) THEN slice.ts
        END AS ts,
        slice.dur, slice.name, slice.tid, slice.correlation
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    -- Without these bounds, all times are possible.
    LEFT JOIN (FROM recording_span WHERE earliest_ts IS NOT NULL) AS span ON slice.rank = span.rank
    WHERE event_kind.kind = 'launch'
),
first_step AS (SELECT rank, ts, number, step_id FROM iteration WHERE is_first),
other_step AS (SELECT rank, device, number, step_id FROM iteration WHERE NOT is_first),
-- The device of what a call started, if it may be another one than the first.
started AS (
    SELECT slice.rank, slice.correlation, MIN(COALESCE(activity.device, slice.pid, -1)) AS device
    FROM slice
    INNER JOIN activity USING (id)
    WHERE slice.rank IN (SELECT rank FROM other_step) AND slice.correlation <> 0
    GROUP BY slice.rank, slice.correlation
)
SELECT call.*, COALESCE(other_step.step_id, first_step.step_id) AS step_id
FROM call
ASOF LEFT JOIN first_step ON call.rank = first_step.rank AND call.ts >= first_step.ts
LEFT JOIN started ON call.rank = started.rank AND call.correlation = started.correlation
LEFT JOIN other_step
    ON first_step.rank = other_step.rank
    AND first_step.number = other_step.number
    AND started.device = other_step.device
ORDER BY call.id
