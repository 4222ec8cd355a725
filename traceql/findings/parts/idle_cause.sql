-- One row per rank: the cause with most idle time, that time, and the idle time of cause sync.
-- @needs  gap
SELECT
    rank,
    arg_max(cause, ns) AS cause,
    MAX(ns) AS ns,
    COALESCE(SUM(ns) FILTER (cause = 'sync'), 0) AS sync_ns
FROM (SELECT rank, cause, SUM(dur) AS ns FROM gap GROUP BY rank, cause)
GROUP BY rank
