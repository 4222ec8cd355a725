-- One row per fact about how the run was recorded.
--
-- Use it to see which model, hardware and software a trace is from. Model, parallelism, versions
-- and profiler overhead are known only for run directories; the architecture is recognized from the
-- kernels.
-- @column fact   VARCHAR  Name of the fact.
-- @column value  VARCHAR  Value of the fact, as text.
-- @key    fact value
-- @empty  the database has no trace
-- @chart  none
WITH recognised AS (
    SELECT family, MAX(first_layer + layers) FILTER (stage = stages - 1) AS layers FROM rank_model GROUP BY family
),
directory AS (
    SELECT
        model,
        start,
        concat_ws(', ', 'TP ' || tp, 'PP ' || pp, 'DP ' || dp, CASE WHEN ep THEN 'expert parallel' END)
            AS parallelism,
        concat_ws(', ', 'vLLM ' || vllm_version, 'PyTorch ' || torch_version) AS versions,
        CASE WHEN eager THEN 'eager' ELSE 'compiled, CUDA graphs' END AS mode,
        format(
            '{:.1f}%: the same work took {:.3f} s with the profiler and {:.3f} s without',
            overhead_pct, profiled_ns / 1e9, unprofiled_ns / 1e9
        ) AS overhead,
        CASE WHEN status != 'complete' THEN concat_ws(': ', status, reason) END AS incomplete
    FROM run
),
fact AS (
    SELECT 1 AS place, 'model' AS fact, model AS value FROM directory
    UNION ALL
    SELECT 2, 'architecture', COALESCE(family, 'unknown family') || ', ' || layers || ' layers' FROM recognised
    UNION ALL
    SELECT 3, 'parallelism', parallelism FROM directory
    UNION ALL
    SELECT 4, 'mode', mode FROM directory
    UNION ALL
    SELECT 5, 'GPUs', COUNT(*) || ' × ' || device_name FROM trace WHERE device_name IS NOT NULL
    GROUP BY device_name
    UNION ALL
    SELECT 6, 'ranks', COUNT(*) || ' of ' || COALESCE(MAX(world_size), COUNT(*)) || ' loaded' FROM trace
    UNION ALL
    SELECT 7, 'versions', versions FROM directory
    UNION ALL
    SELECT 8, 'started', replace(start[:16], 'T', ' ') || ' UTC' FROM directory
    UNION ALL
    SELECT 9, 'profiler overhead', overhead FROM directory
    UNION ALL
    SELECT 10, 'incomplete', incomplete FROM directory
    UNION ALL
    SELECT 11, 'trace files', string_agg(parse_filename(path), ', ' ORDER BY rank) FROM trace
    HAVING COUNT(*) > 0
)
SELECT fact, value
FROM fact
WHERE value IS NOT NULL AND value != ''
ORDER BY place
