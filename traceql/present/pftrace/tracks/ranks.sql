-- One row per rank: the name of its group of tracks, with the label of the run if it has one.
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
ORDER BY trace.rank
