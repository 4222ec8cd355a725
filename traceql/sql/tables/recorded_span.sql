-- One row per rank with GPU activity: for how long its devices were recorded.
-- @scope  rank
-- @needs  device_state
-- @column rank  BIGINT  Rank.
-- @column ns    BIGINT  From the first start to the last end of any activity on its devices, ns; in an excerpt of several windows, what they have of the device with the most.
WITH device AS (
    SELECT rank, device, MIN(ts) AS ts, MAX(ts + dur) AS end_ts, SUM(dur) AS ns
    FROM device_state
    GROUP BY rank, device
)
SELECT
    rank,
    CAST(CASE WHEN BOOL_AND(end_ts - ts = ns) THEN MAX(end_ts) - MIN(ts) ELSE MAX(ns) END AS BIGINT) AS ns
FROM device
GROUP BY rank
