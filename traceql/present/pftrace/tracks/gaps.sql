-- One slice per gap of a GPU, on a track of its cause.
WITH device_count AS (
    SELECT rank, COUNT(DISTINCT device) AS devices FROM kernel GROUP BY rank
)
SELECT
    gap.rank,
    gap.cause || CASE WHEN device_count.devices > 1 THEN ' · GPU ' || gap.device ELSE '' END AS track,
    gap.ts, gap.dur,
    'idle' AS cat,
    'idle · ' || gap.cause AS name,
    gap.cause AS colour,
    gap.step_id, gap.previous_kernel_id, gap.next_kernel_id,
    'SELECT * FROM gap WHERE '
    || COALESCE('next_kernel_id = ' || gap.next_kernel_id, 'previous_kernel_id = ' || gap.previous_kernel_id)
        AS sql
FROM gap
INNER JOIN device_count ON gap.rank = device_count.rank
ORDER BY gap.rank, track, gap.ts, gap.dur DESC
