-- Some operations were not found on all their ranks.
-- @title      unmatched operations
-- @notable    1
-- @severe     10
-- @unit       % of operations
-- @evidence   comm.summary
-- @advice     Load all ranks of the run, and record them at the same time.
-- @source     own: their wait time is unknown
-- @needs      collective
SELECT
    100.0 * COUNT(*) FILTER (wait_ns IS NULL) / COUNT(*) AS value,
    NULL::BIGINT AS cost_ns,
    format(
        '{:,} of {:,} collective operations were not found on all their ranks: their wait time is unknown.',
        COUNT(*) FILTER (wait_ns IS NULL), COUNT(*)
    ) AS finding
FROM collective
WHERE group_size > 1
HAVING COUNT(*) > 0
