-- Some operations were not found on all their ranks.
--
-- If ranks were not loaded, that is the reason, and it is not severe.
-- @title      unmatched operations
-- @notable    1
-- @severe     10
-- @unit       % of operations
-- @evidence   comm.summary
-- @advice     Load all ranks of the run, and record them at the same time.
-- @source     own: their wait time is unknown
-- @needs      collective, run_window, trace
SELECT
    100.0 * COUNT(*) FILTER (wait_ns IS NULL) / COUNT(*) AS value,
    NULL::BIGINT AS cost_ns,
    format(
        '{:,} of {:,} collective operations were not found on all their ranks. Whether they transfer data or wait for a late rank is unknown: {:.1f} ms per rank, {:.0f}% of the run.',
        COUNT(*) FILTER (wait_ns IS NULL), COUNT(*), ANY_VALUE(run_window.unmatched_ns) / 1e6,
        100.0 * ANY_VALUE(run_window.unmatched_ns / run_window.ns)
    ) AS finding,
    (SELECT COUNT(rank) < MAX(world_size) FROM trace) AS is_uncertain
FROM collective
CROSS JOIN run_window
WHERE group_size IS DISTINCT FROM 1
HAVING COUNT(*) > 0
