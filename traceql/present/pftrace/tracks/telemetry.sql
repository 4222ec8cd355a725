-- Samples of the SM clock and the power of each loaded rank's GPU, during the recording.
WITH span AS (
    SELECT MAX(ts + dur) AS end_ts FROM slice
),
sample AS (
    SELECT telemetry.rank, telemetry.ts, telemetry.sm_clock_mhz, telemetry.power_mw
    FROM telemetry
    INNER JOIN trace USING (rank)
    CROSS JOIN span
    WHERE telemetry.ts BETWEEN 0 AND span.end_ts
)
SELECT rank, 'SM clock' AS track, ts, sm_clock_mhz AS value, 'MHz' AS unit
FROM sample
WHERE sm_clock_mhz IS NOT NULL
UNION ALL
SELECT rank, 'Power', ts, power_mw / 1000, 'W'
FROM sample
WHERE power_mw IS NOT NULL
ORDER BY rank, track, ts
