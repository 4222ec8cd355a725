-- One row per rank: the name of its group of tracks, with the label of the run if it has one. Host
-- processes have a common group, of rank -2.
WITH device AS (
    SELECT
        rank,
        COUNT(DISTINCT device) AS devices,
        string_agg(DISTINCT device, ', ' ORDER BY device) AS numbers
    FROM kernel
    WHERE device >= 0
    GROUP BY rank
)
SELECT
    trace.rank,
    'rank ' || trace.rank || COALESCE(' · ' || CAST($label AS VARCHAR), '')
    || COALESCE(CASE device.devices WHEN 1 THEN ' · GPU ' ELSE ' · GPUs ' END || device.numbers, '')
    || COALESCE(' (' || regexp_replace(trace.device_name, '^(NVIDIA|AMD) ', '') || ')', '') AS name
FROM trace
LEFT JOIN device USING (rank)
WHERE trace.rank IS NOT NULL
UNION ALL
SELECT -2, 'host processes' || COALESCE(' · ' || CAST($label AS VARCHAR), '')
FROM trace
WHERE rank IS NULL
HAVING COUNT(*) > 0
ORDER BY rank
