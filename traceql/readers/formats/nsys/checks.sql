-- sqlfluff:rules:capitalisation.identifiers:unquoted_identifiers_policy:none
-- What the ledger says of an export, after nsys.sql. Checks of the whole file are with the first rank.

CREATE TABLE graph_launch AS
SELECT
    rank, COUNT(*) AS calls, COUNT(*) FILTER (
        (rank, correlation) NOT IN (
            SELECT (rank, COALESCE(correlation, 0)) FROM gpu_event INNER JOIN gpu USING (globalPid, device) WHERE is_activity
        )
    ) AS without_work
FROM (
    SELECT DISTINCT rank, COALESCE(correlation, 0) AS correlation FROM host_event INNER JOIN thread USING (globalTid)
    WHERE is_call AND is_own AND name_id IN (SELECT id FROM text WHERE value LIKE '%GraphLaunch%')
)
GROUP BY rank;

CREATE VIEW graph_replay AS SELECT rank, kept + left_out AS replays, kept FROM counted WHERE cat = 'cuda_graph';

CREATE VIEW load_check AS
SELECT rank, 'events that end before they begin' AS check_name, SUM(left_out) AS value, SUM(left_out + kept) AS total, FALSE AS ok,
    'events whose end is before their start, or that ran on the GPU and have no end (export the report again), which are left out; all of this kind' AS note
FROM (SELECT * REPLACE (CASE WHEN cat = 'cuda_graph' THEN 0 ELSE left_out END AS left_out) FROM counted)
GROUP BY rank HAVING SUM(left_out) > 0
UNION ALL
SELECT rank, 'kernels with an impossible grid or block', odd, kept, FALSE,
    'kernels of which a size is not between 1 and 2,147,483,647, so that grid or block is NULL; all kernels: export the report again'
FROM counted WHERE odd > 0
UNION ALL
SELECT rank, 'activities of an unknown process', activities, (SELECT SUM(activities) FROM part), FALSE,
    'GPU activities of which the export does not tell the process, so that they are a rank of their own; all in the export: export the report again'
FROM part WHERE globalPid = 0
UNION ALL
SELECT rank, 'graph launches without work', without_work, calls, FALSE,
    'launches of CUDA graphs of which the file has neither kernels nor an interval, so that their time counts as idle; all launches of graphs. Record with nsys profile --cuda-graph-trace=node'
FROM graph_launch WHERE without_work > 0
UNION ALL
SELECT rank, 'graph replays without kernels', COALESCE(kept, 0), GREATEST(COALESCE(replays, 0), COALESCE(calls, 0)), NULL,
    'replays of CUDA graphs recorded as one interval each; all launches of graphs. What ran inside is not in the file: record with nsys profile --cuda-graph-trace=node to see it'
FROM part LEFT JOIN graph_replay USING (rank) LEFT JOIN graph_launch USING (rank) WHERE is_in_file('CUPTI_ACTIVITY_KIND_GRAPH_TRACE')
UNION ALL
SELECT rank, 'graph replays without times', replays - kept, replays, NULL,
    'replays of CUDA graphs that began or ended outside the recording; all replays'
FROM graph_replay WHERE kept < replays
UNION ALL
SELECT gpu.rank, 'launch calls with another rank', 0, COUNT(DISTINCT call.correlationId), NULL,
    'launch calls that are tied to kernels; calls of a thread that launched more on another GPU of the process, whose rank has them: step and cause of these kernels are unknown'
FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel
INNER JOIN gpu ON gpu.globalPid = COALESCE(kernel.globalPid, 0) AND gpu.device = kernel.deviceId
INNER JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call
    ON call.correlationId = kernel.correlationId AND process_of(call.globalTid) = process_of(gpu.globalPid)
INNER JOIN thread ON thread.globalTid = call.globalTid AND thread.rank <> gpu.rank GROUP BY gpu.rank
UNION ALL
SELECT 0, 'rows that are no calls', COUNT(*) FILTER (is_other), COUNT(*), NULL,
    'rows of the table of API calls that repeat a call for its backtrace; all rows'
FROM (SELECT eventClass IS NULL OR eventClass NOT IN (0, 1) AS is_other FROM CUPTI_ACTIVITY_KIND_RUNTIME)
HAVING COUNT(*) FILTER (is_other) > 0
UNION ALL
SELECT 0, 'table ' || redacted(name), 0, rows, NULL, 'rows loaded; rows in the file (not loaded)'
FROM (SELECT * FROM file_table ORDER BY name) WHERE rows > 0
UNION ALL
SELECT 0, 'table ' || name, kept, total, NULL, 'rows loaded; rows of table ' || name || '. The others have no time or no place'
FROM (
    SELECT 'CUPTI_ACTIVITY_KIND_CUDA_EVENT' AS name, COUNT(*) AS total, (SELECT COUNT(*) FROM gpu_point WHERE key >> 40 = 1) AS kept
    FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT
    UNION ALL
    SELECT 'CUDA_GPU_MEMORY_USAGE_EVENTS', COUNT(*), (SELECT COUNT(*) FROM gpu_point WHERE key >> 40 = 2)
    FROM CUDA_GPU_MEMORY_USAGE_EVENTS
    UNION ALL
    SELECT 'GPU_METRICS', COUNT(*), (SELECT COUNT(*) FROM sample) FROM GPU_METRICS
)
WHERE kept < total
UNION ALL
SELECT 0, 'views', 0, COUNT(*), NULL,
    'views loaded; views in the file, which show what is in its tables: ' || string_agg(redacted(name), ', ' ORDER BY name)
FROM file_table WHERE is_view AND NOT is_read HAVING COUNT(*) > 0
UNION ALL
-- Types 33, 39, 75 and 76 name something, or end such a name.
SELECT 0, 'NVTX events of other types', 0, SUM(rows), NULL,
    'rows loaded; rows of table NVTX_EVENTS that are neither ranges nor marks, by type: '
    || string_agg(COALESCE(CAST(eventType AS VARCHAR), 'None') || ': ' || format('{:,}', rows), ', ' ORDER BY eventType NULLS FIRST)
FROM (
    SELECT eventType, COUNT(*) AS rows FROM NVTX_EVENTS
    WHERE COALESCE(eventType NOT IN (59, 70, 60, 71, 34, 65, 33, 39, 75, 76), TRUE) GROUP BY eventType
)
HAVING COUNT(*) > 0
UNION ALL
SELECT 0, 'samples of GPUs of no rank', SUM(samples), (SELECT SUM(samples) FROM metric_type), NULL,
    'samples of GPU metrics that are with the first rank, on tracks of their own, because no rank is known to have run on these GPUs: '
    || string_agg(DISTINCT gpu, ', ' ORDER BY gpu) || '; all samples of GPU metrics'
FROM metric_type WHERE NOT is_known HAVING COUNT(*) > 0
UNION ALL
SELECT 0, CASE severity WHEN 2 THEN 'warnings' ELSE 'errors' END || ' of the profiler', SUM(messages), SUM(messages), NULL,
    'while it recorded: ' || array_to_string(list(text ORDER BY messages DESC, text)[:10], '; ')
    || CASE WHEN COUNT(*) > 10 THEN '; and ' || (COUNT(*) - 10) || ' other messages' ELSE '' END
FROM (SELECT severity, text, COUNT(*) AS messages FROM DIAGNOSTIC_EVENT GROUP BY severity, text) GROUP BY severity
UNION ALL
SELECT 0, 'time options of the export', COUNT(*), COUNT(*), NULL,
    'options that changed the times, so that they are not taken for Unix time: ' || string_agg(name || '=' || value, ', ' ORDER BY name)
FROM time_option HAVING COUNT(*) > 0;
