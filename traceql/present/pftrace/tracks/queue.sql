-- Samples of the number of kernels that were launched but had not started yet, at each change.
SELECT
    rank,
    'Launch queue' AS track,
    ts,
    CAST(queued AS DOUBLE) AS value,
    'kernels' AS unit
FROM launch_queue
ORDER BY rank, ts
