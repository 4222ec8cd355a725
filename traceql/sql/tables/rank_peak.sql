-- One row per rank and kind of ceiling: what its GPU can reach at most, whatever the type of numbers.
-- @scope  run
-- @needs  peak, trace
-- @column rank       BIGINT   Rank.
-- @column kind       VARCHAR  data sheet (every rank has this row), or measured (only if its GPU was measured).
-- @column hbm_gbps   DOUBLE   Peak of the memory (peak.hbm_gbps), 1e9 bytes per second; NULL if unknown.
-- @column link_gbps  DOUBLE   Peak of the links to other GPUs (peak.link_gbps), 1e9 bytes per second; NULL if unknown.
-- @column kernel_ns  BIGINT   Duration of a kernel in a CUDA graph that has next to nothing to do (peak.kernel_ns), ns; NULL if unknown.
WITH known AS (
    SELECT
        trace.rank, peak.kind,
        MAX(peak.hbm_gbps) AS hbm_gbps,
        MAX(peak.link_gbps) AS link_gbps,
        MAX(peak.kernel_ns) AS kernel_ns
    FROM trace
    INNER JOIN peak USING (device_name)
    GROUP BY trace.rank, peak.kind
)
SELECT rank, kind, known.hbm_gbps, known.link_gbps, known.kernel_ns
FROM (
    SELECT rank, 'data sheet' AS kind FROM trace WHERE rank IS NOT NULL
    UNION
    SELECT rank, kind FROM known
)
LEFT JOIN known USING (rank, kind)
ORDER BY rank, kind
