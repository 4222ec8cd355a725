-- One row per rank: its GPU span, and how its parts divide it; of several devices, the mean of each.
-- @needs  device_timeline
SELECT
    rank,
    COUNT(DISTINCT device) AS devices,
    SUM(dur) // COUNT(DISTINCT device) AS ns,
    COALESCE(SUM(dur) FILTER (part IN ('idle', 'exposed_wait')), 0) // COUNT(DISTINCT device) AS lost_ns,
    COALESCE(SUM(dur) FILTER (part = 'exposed_copy'), 0) // COUNT(DISTINCT device) AS copy_ns,
    COALESCE(SUM(dur) FILTER (part = 'exposed_transfer'), 0) // COUNT(DISTINCT device) AS transfer_ns,
    COALESCE(SUM(dur) FILTER (part = 'exposed_unmatched'), 0) // COUNT(DISTINCT device) AS unmatched_ns,
    COALESCE(SUM(dur) FILTER (is_overlapped), 0) // COUNT(DISTINCT device) AS overlap_ns
FROM device_timeline
GROUP BY rank
