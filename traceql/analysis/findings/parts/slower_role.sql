-- One row per rank: the part of the model that takes it the most time beyond the median rank.
-- @needs  kernel
WITH spent AS (
    SELECT rank, role, SUM(dur) AS ns
    FROM kernel
    WHERE role IS NOT NULL AND category NOT IN ('collective', 'memcpy', 'memset')
    GROUP BY rank, role
),
compared AS (
    SELECT rank, role, ns - MEDIAN(ns) OVER (PARTITION BY role) AS excess_ns FROM spent
)
SELECT rank, arg_max(role, excess_ns) AS role, MAX(excess_ns) AS excess_ns
FROM compared
WHERE excess_ns > 0
GROUP BY rank
