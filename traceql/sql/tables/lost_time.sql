-- One row per rank, step, communicator and root cause: time in which the GPU did nothing useful, idle or waiting for another rank.
--
-- The rows of a rank add up to its idle time and its exposed wait time. Idle time is blamed on the
-- rank itself. Wait time is blamed on the late rank, with the reason why it was late: so all time
-- that one cause cost, on all ranks, has the same root rank, root step and cause.
-- @schema main
-- @scope  run
-- @needs  lost_interval
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
SELECT
    rank, step_id, part, root_rank, root_step_id, cause, communicator_id,
    CASE WHEN cause = 'peer' THEN late_place END AS late_place,
    COUNT(*) AS intervals,
    CAST(SUM(dur) AS BIGINT) AS ns,
    arg_max(ts, {'dur': dur, 'first': -ts}) AS longest_ts,
    MAX(dur) AS longest_ns
FROM lost_interval
GROUP BY ALL
ORDER BY rank, step_id, part, ns DESC, root_rank, root_step_id, cause, communicator_id, late_place
