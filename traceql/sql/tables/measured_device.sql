-- One row per GPU name with measured ceilings: the file that counts for it.
--
-- A file given with --peaks counts before those in run directories, and of these the latest.
-- @scope  run
-- @needs  peak_file
-- @empty_unless peak_file
-- @column device_name   VARCHAR  Name of the GPU that was measured.
-- @column measured      VARCHAR  Time of the measurement, UTC, ISO 8601.
-- @column l2_bytes      BIGINT   Size of its L2 cache, bytes; NULL if unknown.
-- @column memory_bytes  BIGINT   Size of its memory, bytes; NULL if unknown.
-- @column kernel_ns     DOUBLE   Duration of a kernel in a CUDA graph that has next to nothing to do, ns; NULL if it was not measured.
-- @column gap_ns        DOUBLE   Time from the end of such a kernel to the next one in the graph, ns, which the other measured durations include; NULL if it was not measured.
-- @column path          VARCHAR  The file.
-- @column document      JSON     Content of the file.
SELECT
    device_name,
    document ->> '$.measured' AS measured,
    CAST(document ->> '$.l2_bytes' AS BIGINT) AS l2_bytes,
    CAST(document ->> '$.memory_bytes' AS BIGINT) AS memory_bytes,
    CAST(document ->> '$.kernel.ns' AS DOUBLE) AS kernel_ns,
    CAST(document ->> '$.kernel.period_ns' AS DOUBLE) - kernel_ns AS gap_ns,
    path, document
FROM peak_file
QUALIFY row_number() OVER (PARTITION BY device_name ORDER BY run IS NOT NULL, measured DESC, path) = 1
