-- One row per rank: its GPU span, and how much of it was idle time or exposed copies.
-- @needs  device_state
SELECT
    rank,
    SUM(dur) AS ns,
    COALESCE(SUM(dur) FILTER (NOT (compute OR comm OR copy)), 0) AS idle_ns,
    COALESCE(SUM(dur) FILTER (copy AND NOT compute AND NOT comm), 0) AS copy_ns
FROM device_state
GROUP BY rank
