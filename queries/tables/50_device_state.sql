-- The exact partition of each rank's GPU span by what its device was doing. Kernels are unioned
-- over streams by counting what is open between any two consecutive starts and ends.

CREATE OR REPLACE TABLE device_state AS
WITH edge AS (
    SELECT
        rank,
        device,
        ts,
        CASE WHEN category NOT IN ('collective', 'memcpy', 'memset') THEN 1 ELSE 0 END AS compute,
        CASE WHEN category = 'collective' THEN 1 ELSE 0 END AS comm,
        CASE WHEN category IN ('memcpy', 'memset') THEN 1 ELSE 0 END AS copy
    FROM kernel
    UNION ALL
    SELECT
        rank,
        device,
        ts + GREATEST(dur, 0),
        CASE WHEN category NOT IN ('collective', 'memcpy', 'memset') THEN -1 ELSE 0 END,
        CASE WHEN category = 'collective' THEN -1 ELSE 0 END,
        CASE WHEN category IN ('memcpy', 'memset') THEN -1 ELSE 0 END
    FROM kernel
),
span AS (
    SELECT rank, MIN(ts) AS first_ts, MAX(ts) AS last_ts FROM edge GROUP BY rank
),
-- A rank's window is one for all its devices.
border AS (
    SELECT DISTINCT edge.rank, edge.device, UNNEST([span.first_ts, span.last_ts]) AS ts
    FROM edge
    INNER JOIN span USING (rank)
),
-- Of edges at one instant only the last has an interval after it, and the sums of all of them.
instant AS (
    FROM edge
    UNION ALL
    SELECT rank, device, ts, 0, 0, 0 FROM border
),
interval_open AS (
    SELECT
        rank,
        device,
        ts,
        LEAD(ts) OVER in_order - ts AS dur,
        SUM(compute) OVER in_order > 0 AS compute,
        SUM(comm) OVER in_order > 0 AS comm,
        SUM(copy) OVER in_order > 0 AS copy
    FROM instant
    WINDOW in_order AS (PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING)
)
SELECT rank, device, ts, dur, compute, comm, copy
FROM interval_open
WHERE dur > 0
ORDER BY rank, device, ts;

COMMENT ON TABLE device_state IS
    'One row per interval in which a device''s activity does not change; those of a device cover its rank''s GPU span without overlap.';
COMMENT ON COLUMN device_state.rank IS 'Rank.';
COMMENT ON COLUMN device_state.device IS 'Device number on its host.';
COMMENT ON COLUMN device_state.ts IS 'Start, ns since trace.base_time_ns.';
COMMENT ON COLUMN device_state.dur IS 'Duration, ns.';
COMMENT ON COLUMN device_state.compute IS 'A kernel runs that neither communicates nor copies.';
COMMENT ON COLUMN device_state.comm IS 'A kernel of category collective runs.';
COMMENT ON COLUMN device_state.copy IS 'A memory copy or memory set runs (category memcpy or memset).';
