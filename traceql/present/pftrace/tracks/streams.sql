-- One slice per GPU activity on its stream, coloured by role, or by category if it has no role.
WITH device_count AS (
    SELECT rank, COUNT(DISTINCT device) AS devices FROM kernel GROUP BY rank
)
SELECT
    kernel.rank,
    'stream ' || kernel.stream
    || CASE WHEN device_count.devices > 1 THEN ' · GPU ' || kernel.device ELSE '' END AS track,
    kernel.ts,
    GREATEST(kernel.dur, 0) AS dur,
    kernel.kind AS cat,
    kernel.name,
    COALESCE(kernel.role, kernel.category) AS colour,
    CASE WHEN launch.ts <= kernel.ts THEN launch.id END AS flow_in,
    kernel.id, kernel.step_id, kernel.layer, kernel.category, kernel.role,
    CAST(kernel.grid AS VARCHAR) AS grid,
    CAST(kernel.block AS VARCHAR) AS block,
    kernel.bytes,
    'SELECT * FROM kernel WHERE id = ' || kernel.id AS sql
FROM kernel
INNER JOIN device_count ON kernel.rank = device_count.rank
LEFT JOIN launch ON kernel.launch_id = launch.id
WHERE kernel.ts IS NOT NULL  -- its time is possible
ORDER BY kernel.rank, track, kernel.ts, 4 DESC, kernel.id
