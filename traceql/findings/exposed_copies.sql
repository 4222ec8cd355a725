-- Exposed memory copies take a large part of the run.
-- @title      exposed copies
-- @notable    5
-- @severe     15
-- @unit       % of the run
-- @evidence   time.breakdown
-- @advice     Use pinned memory, and non-blocking copies on a stream of their own.
-- @source     own: copies that nothing overlaps make the run longer
-- @needs      rank_window
SELECT
    100.0 * SUM(copy_ns) / SUM(ns) AS value,
    SUM(copy_ns) AS cost_ns,
    AVG(copy_ns) AS saving_ns,
    'if all copies overlapped with compute' AS assumption,
    format('Exposed memory copies take {:.1f} ms per rank.', AVG(copy_ns) / 1e6) AS finding
FROM rank_window
