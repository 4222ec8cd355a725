-- One row per rank: the cause of most of its idle time, and the time of gaps of cause sync.
-- @needs  gap
SELECT
    rank,
    arg_max(cause, ns) AS cause,
    MAX(ns) AS ns,
    COALESCE(SUM(ns) FILTER (cause = 'sync'), 0) AS sync_ns
FROM (SELECT rank, cause, SUM(dur) AS ns FROM gap GROUP BY rank, cause)
GROUP BY rank
