-- One row per fact about how the run was recorded.
--
-- Use it to see which model, hardware and software a trace is from. Model, parallelism, versions
-- and profiler overhead are known only for run directories; the architecture is recognized from the
-- kernels. A profile of Nsight Compute has no timeline: loaded without a trace, it has the GPU and
-- what was counted.
-- @column fact   VARCHAR  Name of the fact.
-- @column value  VARCHAR  Value of the fact, as text.
-- @key    fact value
-- @empty  the database has neither a trace nor a profile
-- @chart  none
WITH recognised AS (
    SELECT family, MAX(first_layer + layers) FILTER (stage = stages - 1) AS layers FROM rank_model GROUP BY family
),
-- Where neither run.json nor a trace states the number of ranks, it is that of the ranks that are loaded
-- or in a communicator: the run may have more.
job AS (
    SELECT
        COUNT(trace.rank) AS loaded,
        CASE WHEN EXISTS (FROM run) THEN MAX(trace.world_size) ELSE MAX(recorder.world_size) END AS stated,
        GREATEST(COUNT(trace.rank), MAX(trace.world_size), (SELECT MAX(group_size) FROM communicator)) AS ranks
    FROM trace
    LEFT JOIN recorder USING (rank)
    HAVING COUNT(*) > 0
),
directory AS (
    SELECT
        model, start,
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
profiled AS (
    SELECT
        format(
            'Nsight Compute: {:,} {}{}',
            COUNT(*),
            CASE COUNT(*) WHEN 1 THEN 'launch' ELSE 'launches' END,
            COALESCE(format(', at a median clock of {:.2f} GHz', MEDIAN(work.sm_hz) / 1e9), '')
        ) AS counters,
        string_agg(DISTINCT launch.device_name, ', ' ORDER BY launch.device_name) AS device_names
    FROM profiled_launch AS launch
    INNER JOIN profiled_work AS work ON launch.id = work.launch
    HAVING COUNT(*) > 0
),
-- Files of the same name are shown with the nearest folder in which they differ.
file AS (
    SELECT parse_path(path) AS parts, MIN(rank) AS rank FROM trace GROUP BY path
),
nearest AS (
    SELECT CASE
        WHEN COUNT(DISTINCT parts[-1]) = COUNT(*) THEN 1
        WHEN COUNT(DISTINCT parts[-2]) = COUNT(*) THEN 2
        WHEN COUNT(DISTINCT parts[-3]) = COUNT(*) THEN 3
        ELSE 4
    END AS depth
    FROM file
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
    SELECT 5, 'devices', SUM(GREATEST(used.devices, 1)) || ' × ' || trace.device_name
    FROM trace
    LEFT JOIN (SELECT rank, COUNT(DISTINCT device) AS devices FROM step GROUP BY rank) AS used USING (rank)
    WHERE trace.device_name IS NOT NULL
    GROUP BY trace.device_name
    UNION ALL
    SELECT 5, 'devices', device_names FROM profiled WHERE NOT EXISTS (FROM trace)
    UNION ALL
    SELECT 6, 'ranks', format(
        '{} of {}{} loaded', loaded, CASE WHEN ranks > GREATEST(loaded, stated) THEN 'at least ' ELSE '' END, ranks
    )
    FROM job
    UNION ALL
    SELECT 7, 'versions', versions FROM directory
    UNION ALL
    SELECT 8, 'started', replace(start[:16], 'T', ' ') || ' UTC' FROM directory
    UNION ALL
    SELECT 10, 'profiler overhead', overhead FROM directory
    UNION ALL
    SELECT 11, 'incomplete', incomplete FROM directory
    UNION ALL
    SELECT 9, 'profiler', CASE
        WHEN COUNT(*) OVER () = 1 THEN profiler
        ELSE format('{} on rank{} {}', profiler, CASE len(ranks) WHEN 1 THEN '' ELSE 's' END, array_to_string(ranks, ', '))
    END
    FROM (SELECT profiler, list(rank ORDER BY rank) AS ranks FROM recorder GROUP BY profiler)
    UNION ALL
    SELECT 12, 'trace files', string_agg(
        CASE depth WHEN 1 THEN '' WHEN 2 THEN parts[-2] || '/' ELSE parts[-depth] || '/.../' END || parts[-1],
        ', ' ORDER BY rank
    )
    FROM file
    CROSS JOIN nearest
    HAVING COUNT(*) > 0
    UNION ALL
    SELECT 12, 'host processes', string_agg(parse_filename(path), ', ' ORDER BY path) FROM trace WHERE rank IS NULL
    HAVING COUNT(*) > 0
    UNION ALL
    SELECT 13, 'counters', counters FROM profiled
    UNION ALL
    SELECT 14, 'profiles', string_agg(parse_filename(path), ', ' ORDER BY id) FROM profile_file
    UNION ALL
    SELECT 15, 'timeline', 'none: load a trace of the same program with the profile (traceql load TRACE PROFILE)'
    FROM profiled
    WHERE NOT EXISTS (FROM trace)
)
SELECT fact, value
FROM fact
WHERE value IS NOT NULL AND value != ''
ORDER BY place
