-- One row per interval in which the GPU did nothing useful, idle or waiting for another rank, with the root cause.
--
-- Table lost_time has their sums, and says what the columns mean.
-- @kind   scratch
-- @scope  run
-- @needs  collective, device_timeline, gap, kernel, launch, layout, straggler
-- @column rank             BIGINT   As in lost_time.
-- @column device           BIGINT   Number of the device on its machine.
-- @column step_id          BIGINT   As in lost_time.
-- @column part             VARCHAR  As in lost_time.
-- @column root_rank        BIGINT   As in lost_time.
-- @column root_step_id     BIGINT   As in lost_time.
-- @column cause            VARCHAR  As in lost_time.
-- @column communicator_id  BIGINT   As in lost_time.
-- @column late_place       BIGINT   As in lost_time.
-- @column ts               BIGINT   Start, ns since the run's first event.
-- @column dur              BIGINT   Duration, ns.
-- @column next_kernel_id   BIGINT   Kernel that ended idle time, or the operation that waited (kernel.id); NULL if there is none.
WITH
-- A host that issued the next kernel early in the gap is not what the rest of it waited for.
late_host_gap AS (
    SELECT
        gap.rank, gap.device, gap.step_id,
        CASE WHEN launch.ts + launch.dur < gap.ts + gap.dur / 2 THEN 'launch' ELSE gap.cause END AS cause,
        gap.ts, gap.dur, gap.next_kernel_id
    FROM gap
    LEFT JOIN kernel ON gap.next_kernel_id = kernel.id
    LEFT JOIN launch ON kernel.launch_id = launch.id
    WHERE gap.cause IN ('host', 'sync')
),
idle AS (
    FROM late_host_gap
    UNION ALL BY NAME
    SELECT rank, device, step_id, cause, ts, dur, next_kernel_id FROM gap WHERE cause NOT IN ('host', 'sync')
)
SELECT
    rank, device, step_id,
    'idle' AS part,
    rank AS root_rank,
    step_id AS root_step_id,
    cause,
    NULL AS communicator_id,
    NULL AS late_place,
    ts, dur, next_kernel_id
FROM idle
UNION ALL
SELECT
    device_timeline.rank, device_timeline.device, device_timeline.step_id, device_timeline.part,
    COALESCE(straggler.rank, collective.late_rank) AS root_rank,
    straggler.step_id,
    CASE
        WHEN
            collective.op IN ('send', 'recv') OR (collective.op = 'broadcast' AND layout.pp_size > 1)
            THEN 'pipeline'
        WHEN
            COALESCE(collective.uncertainty_ns > collective.wait_ns + collective.transfer_ns, TRUE)
            THEN 'clock'
        WHEN collective.wait_source = 'planes' AND collective.late_place IS NOT NULL THEN 'peer'
        ELSE COALESCE(straggler.cause, 'unknown')
    END AS cause,
    collective.communicator_id, collective.late_place, device_timeline.ts, device_timeline.dur, device_timeline.kernel_id
FROM device_timeline
LEFT JOIN collective ON device_timeline.kernel_id = collective.kernel_id
LEFT JOIN straggler USING (match_id)
LEFT JOIN layout ON device_timeline.rank = layout.rank
WHERE device_timeline.part = 'exposed_wait'
