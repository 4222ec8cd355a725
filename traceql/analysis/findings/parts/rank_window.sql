-- One row per rank: its GPU span, and how its parts divide it.
-- @needs  device_timeline
SELECT
    rank,
    SUM(dur) AS ns,
    COALESCE(SUM(dur) FILTER (part IN ('idle', 'exposed_wait')), 0) AS lost_ns,
    COALESCE(SUM(dur) FILTER (part = 'exposed_copy'), 0) AS copy_ns,
    COALESCE(SUM(dur) FILTER (part = 'exposed_transfer'), 0) AS transfer_ns,
    COALESCE(SUM(dur) FILTER (part = 'exposed_unmatched'), 0) AS unmatched_ns,
    COALESCE(SUM(dur) FILTER (is_overlapped), 0) AS overlap_ns
FROM device_timeline
GROUP BY rank
