-- One row per side: the run whose recording stands for the side, the one of median length.
-- @column side   VARCHAR  base or new.
-- @column run    BIGINT   The run; of two in the middle the shorter one.
-- @column lanes  BIGINT   Most lanes of a step: devices that the time is divided by.
-- @column ns     BIGINT   Time of all lanes, ns.
WITH whole AS (
    SELECT side, run, SUM(ns) AS ns FROM profile_window_part GROUP BY side, run
),
counted AS (
    SELECT side, run, MAX(lanes) AS lanes FROM profile_stratum GROUP BY side, run
)
SELECT whole.side, whole.run, COALESCE(counted.lanes, 1) AS lanes, CAST(whole.ns AS BIGINT) AS ns
FROM whole
LEFT JOIN counted USING (side, run)
QUALIFY
    ROW_NUMBER() OVER (PARTITION BY whole.side ORDER BY whole.ns / COALESCE(counted.lanes, 1), whole.run)
    = (COUNT(*) OVER (PARTITION BY whole.side) + 1) // 2
ORDER BY whole.side
