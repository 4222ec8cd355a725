-- A GPU is idle because its host is blocked in synchronizing calls.
-- @title      host synchronisation
-- @notable    10
-- @severe     25
-- @unit       % of the run
-- @evidence   idle.by_cause rank=rank
-- @advice     Use asynchronous scheduling, and avoid .item() and .cpu() between launches.
-- @source     own: time that asynchronous scheduling would save
-- @needs      idle_cause, rank_window
WITH worst AS (
    SELECT idle_cause.rank, idle_cause.sync_ns, rank_window.ns
    FROM idle_cause
    INNER JOIN rank_window USING (rank)
    QUALIFY ROW_NUMBER() OVER (ORDER BY idle_cause.sync_ns / rank_window.ns DESC, idle_cause.rank) = 1
)
SELECT
    100.0 * sync_ns / ns AS value,
    sync_ns AS cost_ns,
    format(
        'The GPU of rank {} is idle for {:.1f} ms because its host is blocked in a synchronizing call.',
        rank, sync_ns / 1e6
    ) AS finding,
    rank
FROM worst
