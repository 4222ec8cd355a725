-- One row per rank, step, communicator and root cause: time in which the GPU did nothing useful, idle or waiting for another rank.
--
-- The rows of a rank add up to its idle time and its exposed wait time. Idle time is blamed on the
-- rank itself. Wait time is blamed on the late rank, with the reason why it was late: so all time
-- that one cause cost, on all ranks, has the same root rank, root step and cause.
-- @schema main
-- @scope  run
-- @needs  collective, device_timeline, gap, kernel, launch, layout, straggler
-- @column rank             BIGINT   Rank that lost the time.
-- @column step_id          BIGINT   Step of that rank (device_timeline.step_id); NULL if unknown.
-- @column part             VARCHAR  idle or exposed_wait.
-- @column root_rank        BIGINT   Rank that the cause is on: the rank itself if it was idle, the late rank if it waited; NULL if unknown.
-- @column root_step_id     BIGINT   Step of the root rank; NULL if unknown.
-- @column cause            VARCHAR  Of idle time, gap.cause: sync, host, dependency, launch, not recorded or unknown; launch also if the next kernel had been launched before the middle of the gap. Of wait time, straggler.cause of the late rank: host, kernel, preemption, copy, communication, launch, start or unknown; peer if the late rank is known from the devices that waited alone, so that the reason is unknown; pipeline if a pipeline stage waited for another one; clock if the clocks of the ranks differ by more than the operation lasts.
-- @column communicator_id  BIGINT   Communicator of the operations that waited; NULL if idle.
-- @column late_place       BIGINT   Number of the late rank in that communicator, from 0, if the cause is peer.
-- @column intervals        BIGINT   Number of intervals.
-- @column ns               BIGINT   Total duration, ns.
-- @column longest_ts       BIGINT   Start of the longest interval, the first of equal ones, ns since the run's first event.
-- @column longest_ns       BIGINT   Duration of the longest interval, ns.
WITH
-- A host that issued the next kernel early in the gap is not what the rest of it waited for.
gap_host_event AS (
    SELECT
        gap.rank, gap.step_id,
        CASE WHEN launch.ts + launch.dur < gap.ts + gap.dur / 2 THEN 'launch' ELSE gap.cause END AS cause,
        gap.ts, gap.dur
    FROM gap
    LEFT JOIN kernel ON gap.next_kernel_id = kernel.id
    LEFT JOIN launch ON kernel.launch_id = launch.id
    WHERE gap.cause IN ('host', 'sync')
),
idle AS (
    FROM gap_host_event
    UNION ALL BY NAME
    SELECT rank, step_id, cause, ts, dur FROM gap WHERE cause NOT IN ('host', 'sync')
),
lost AS (
    SELECT
        rank, step_id,
        'idle' AS part,
        rank AS root_rank,
        step_id AS root_step_id,
        cause,
        NULL AS communicator_id,
        NULL AS late_place,
        ts, dur
    FROM idle
    UNION ALL
    SELECT
        device_timeline.rank, device_timeline.step_id, device_timeline.part,
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
        collective.communicator_id, collective.late_place, device_timeline.ts, device_timeline.dur
    FROM device_timeline
    LEFT JOIN collective ON device_timeline.kernel_id = collective.kernel_id
    LEFT JOIN straggler USING (match_id)
    LEFT JOIN layout ON device_timeline.rank = layout.rank
    WHERE device_timeline.part = 'exposed_wait'
)
SELECT
    rank, step_id, part, root_rank, root_step_id, cause, communicator_id,
    CASE WHEN cause = 'peer' THEN late_place END AS late_place,
    COUNT(*) AS intervals,
    CAST(SUM(dur) AS BIGINT) AS ns,
    arg_max(ts, {'dur': dur, 'first': -ts}) AS longest_ts,
    MAX(dur) AS longest_ns
FROM lost
GROUP BY ALL
ORDER BY rank, step_id, part, ns DESC, root_rank, root_step_id, cause, communicator_id, late_place
