-- noqa: disable=AM04,AM07
-- Columns go through by name.
-- What the ledger says about a recording of rocprofv3. Statements about a process are with its first rank.
CREATE TABLE rank_sum AS
WITH call AS (SELECT DISTINCT rank, COALESCE(correlation, 0) AS correlation FROM linked WHERE is_call),

listed AS (SELECT process, array_agg(DISTINCT device) AS devices FROM agent WHERE is_listed GROUP BY process)

SELECT
    gpu.rank, COUNT(dispatch) AS dispatches, gpu.rank IN (SELECT rank FROM call) AS has_calls,
    COUNT(dispatch) FILTER (call.rank IS NULL) AS without_call, COUNT(*) FILTER (shape = 'kernel') AS kernels,
    COUNT(*) FILTER (shape = 'kernel' AND (device IS NULL OR NOT list_contains(devices, device))) AS of_unknown,
    COUNT(*) FILTER (
        COALESCE(grid_size_x, grid_size_y, grid_size_z, workgroup_size_x, workgroup_size_y, workgroup_size_z) IS NOT NULL
        AND (grid IS NULL OR block IS NULL)
    ) AS of_odd_size,
    COUNT(bytes) AS sized, COUNT(*) FILTER (bytes < 0) AS negative
FROM linked AS gpu LEFT JOIN call ON gpu.rank = call.rank AND COALESCE(gpu.correlation, 0) = call.correlation
LEFT JOIN listed USING (process) WHERE on_gpu GROUP BY gpu.rank;

CREATE TABLE process_sum AS
SELECT *, without_times + COALESCE(events, 0) AS timed, backward + COALESCE(events, 0) AS forward
FROM (SELECT process, SUM(without_times) AS without_times, SUM(backward) AS backward FROM counted GROUP BY process) LEFT JOIN (
    SELECT
        process, COUNT(*) AS events, COUNT(DISTINCT dispatch) AS dispatches, MAX(dispatch) - MIN(dispatch) + 1 AS span,
        COUNT(*) FILTER (is_call) AS calls, COUNT(*) FILTER (is_call AND contains(name, 'GraphLaunch')) AS graph_launches
    FROM event WHERE NOT is_mark GROUP BY process
) USING (process)
INNER JOIN rank_part USING (process) WHERE is_first;

CREATE VIEW load_check AS
WITH said AS (
    SELECT rank, unnest([
        statement('calls of HIP', IF(dispatches > 0 AND NOT has_calls, 0, NULL), dispatches, NULL,
            'calls of HIP in the file; without them it is unknown what launched a kernel, why a GPU was idle, or which kernels are of a graph: record with rocprofv3 --runtime-trace; kernels'),
        statement('kernels without a call', IF(has_calls, NULLIF(without_call, 0), NULL), dispatches, NULL,
            'kernels whose correlation is that of no call of HIP in the file; all kernels'),
        statement('kernels of unknown agents', NULLIF(of_unknown, 0), kernels, FALSE,
            'kernels of an agent that the recording does not describe as a GPU, so that the name of their GPU is unknown, and maybe which one it is; all kernels of the rank'),
        statement('kernels with an impossible grid or block', NULLIF(of_odd_size, 0), kernels, FALSE,
            'kernels of which a size is not between 1 and 2,147,483,647, so that grid or block is NULL; all kernels of the rank: record again'),
        statement('copies of fewer than 0 bytes', NULLIF(negative, 0), sized, FALSE,
            'copies whose size cannot be, so that it is NULL; all copies of the rank with a size')
    ], recursive := TRUE)
    FROM rank_sum
    UNION ALL
    FROM graph_remark
    UNION ALL
    SELECT rank, unnest([
        statement('dispatches missing', span - dispatches, span, span = dispatches,
            'numbers of kernels that the file skips, of kernels that ran but are not in it; numbers from its first kernel to its last'
            || CASE
                WHEN graph_launches > 0 OR calls = 0 THEN graph_advice(span - dispatches)
                WHEN span > dispatches THEN '. They were filtered out, or the profiler lost them; no HIP graph was launched'
                ELSE ''
            END),
        statement('records without times', NULLIF(without_times, 0), timed, FALSE,
            'records with zeros for times, which are left out; all of this kind'),
        statement('records that end before they begin', NULLIF(backward, 0), forward, FALSE,
            'records whose times cannot be, which are left out; all of this kind')
    ], recursive := TRUE)
    FROM process_sum
    UNION ALL
    SELECT rank, 'records that cannot be read', NULLIF(SUM(records), 0), SUM(records), FALSE, 'in ' || what || ', which are left out'
    FROM unread INNER JOIN rank_part USING (process) WHERE is_first GROUP BY rank, what
    UNION ALL
    SELECT rank, 'records ' || what, 0, records, NULL, 'records loaded; records in the file' FROM not_loaded
    INNER JOIN rank_part USING (process) WHERE is_first AND records > 0
)

FROM said WHERE value IS NOT NULL;
