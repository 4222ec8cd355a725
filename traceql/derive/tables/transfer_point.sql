-- One row per GPU name, operation, number of ranks and size: how long the communication takes without waiting.
--
-- Measurements of peaks.json (the fastest launch of the fastest algorithm; of copies, between the fastest pair), and the recording's own operations (the median).
-- @scope  run
-- @needs  collective, kernel, measured_collective, trace
-- @column device_name  VARCHAR  Name of the GPUs; NULL if unknown.
-- @column op           VARCHAR  Operation, as in collective; or peer_copy (see measured_collective).
-- @column ranks        BIGINT   Ranks that take part.
-- @column bytes        BIGINT   Size of the whole buffer, bytes.
-- @column ns           DOUBLE   Duration, ns.
-- @column source       VARCHAR  measured (peaks.json), recorded (transfer time of the recording) or recorded, with waiting (duration of its kernels, because the operations were not matched).
SELECT device_name, op, ranks, bytes, MIN(COALESCE(fastest_ns, kernel_ns, ns)) AS ns, 'measured' AS source
FROM measured_collective
WHERE op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'peer_copy')
GROUP BY device_name, op, ranks, bytes
UNION ALL
SELECT
    trace.device_name,
    collective.op,
    collective.group_size,
    collective.bytes,
    median(COALESCE(collective.transfer_ns, kernel.dur)) AS ns,
    CASE WHEN COUNT(collective.transfer_ns) = COUNT(*) THEN 'recorded' ELSE 'recorded, with waiting' END AS source
FROM collective
INNER JOIN kernel ON collective.kernel_id = kernel.id
INNER JOIN trace ON collective.rank = trace.rank
WHERE collective.bytes > 0 AND collective.group_size > 1
GROUP BY trace.device_name, collective.op, collective.group_size, collective.bytes
ORDER BY device_name, op, ranks, source, bytes
