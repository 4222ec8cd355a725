-- Exposed memory copies take a large part of the run.
-- @title      exposed copies
-- @notable    5
-- @severe     15
-- @unit       % of the run
-- @evidence   time.breakdown
-- @advice     Use non-blocking copies on a stream of their own.
-- @source     own: copies that nothing overlaps make the run longer
-- @needs      kernel, rank_window
SELECT
    100.0 * SUM(copy_ns) / SUM(ns) AS value,
    SUM(copy_ns) AS cost_ns,
    AVG(copy_ns) AS saving_ns,
    'if all copies overlapped with compute' AS assumption,
    format('Exposed memory copies take {:.1f} ms per rank.', AVG(copy_ns) / 1e6) AS finding,
    (
        SELECT CASE
            WHEN SUM(dur) FILTER (name LIKE '%Pageable%') * 10 >= SUM(dur)
                THEN 'Use pinned memory: copies from and to pageable memory are slow and block the host.'
        END
        FROM kernel
        WHERE category = 'memcpy'
    ) AS advice
FROM rank_window
