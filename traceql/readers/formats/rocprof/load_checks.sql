-- noqa: disable=AM04,AM07
-- Columns go through by name.
-- What the ledger says about a recording of rocprofv3. Statements about a process are with its first rank.
CREATE TABLE rank_sum AS
WITH call AS (SELECT DISTINCT rank, COALESCE(correlation, 0) AS correlation FROM linked WHERE is_call),

listed AS (SELECT process, array_agg(DISTINCT device) AS devices FROM agent WHERE is_listed GROUP BY process)

SELECT
    gpu.rank,
    COUNT(dispatch) AS dispatches,
    COUNT(dispatch) FILTER (WHERE call.rank IS NULL) AS without_call,
    gpu.rank IN (SELECT rank FROM call) AS has_calls,
    COUNT(*) FILTER (WHERE shape = 'kernel') AS kernels,
    COUNT(*) FILTER (WHERE shape = 'kernel' AND (device IS NULL OR NOT list_contains(devices, device))) AS of_unknown,
    COUNT(*) FILTER (
        WHERE has_size AND (grid IS NULL OR block IS NULL)
    ) AS of_odd_size,
    COUNT(bytes) AS sized,
    COUNT(*) FILTER (WHERE bytes < 0) AS negative
FROM linked AS gpu
LEFT JOIN call ON gpu.rank = call.rank AND COALESCE(gpu.correlation, 0) = call.correlation
LEFT JOIN listed USING (process)
WHERE on_gpu
GROUP BY gpu.rank;

CREATE TABLE process_sum AS
SELECT *, without_times + COALESCE(events, 0) AS timed, backward + COALESCE(events, 0) AS forward
FROM (SELECT process, SUM(without_times) AS without_times, SUM(backward) AS backward FROM counted GROUP BY process)
LEFT JOIN (
    SELECT
        process, COUNT(*) AS events, COUNT(DISTINCT dispatch) AS dispatches, MAX(dispatch) - MIN(dispatch) + 1 AS span,
        COUNT(*) FILTER (WHERE is_call) AS calls,
        COUNT(*) FILTER (WHERE is_call AND contains(name, 'GraphLaunch')) AS graph_launches
    FROM event
    GROUP BY process
) USING (process)
INNER JOIN rank_part USING (process)
WHERE is_first;

CREATE VIEW load_check AS
WITH said AS (
    SELECT rank, unnest([
        {
            'check_name': 'calls of HIP', 'value': IF(dispatches > 0 AND NOT has_calls, 0, NULL), 'total': dispatches, 'ok': NULL,
            'note': 'calls of HIP in the file; without them nothing tells what launched a kernel, why a GPU was idle, or '
            || 'which kernels are of a graph: record with rocprofv3 --runtime-trace; kernels'
        },
        {
            'check_name': 'kernels without a call', 'value': IF(has_calls, NULLIF(without_call, 0), NULL), 'total': dispatches,
            'ok': NULL, 'note': 'kernels whose correlation is that of no call of HIP in the file; all kernels'
        },
        {
            'check_name': 'kernels of unknown agents', 'value': NULLIF(of_unknown, 0), 'total': kernels, 'ok': FALSE,
            'note': 'kernels of an agent that the recording does not describe as a GPU, so that the name of their GPU is '
            || 'unknown, and maybe which one it is; all kernels of the rank'
        },
        {
            'check_name': 'kernels with an impossible grid or block', 'value': NULLIF(of_odd_size, 0), 'total': kernels, 'ok': FALSE,
            'note': 'kernels of which a size is not between 1 and 2,147,483,647, so that grid or block is NULL; all kernels '
            || 'of the rank: record again'
        },
        {
            'check_name': 'copies of fewer than 0 bytes', 'value': NULLIF(negative, 0), 'total': sized, 'ok': FALSE,
            'note': 'copies whose size cannot be, so that it is NULL; all copies of the rank with a size'
        }
    ], recursive := TRUE)
    FROM rank_sum
    UNION ALL
    FROM graph_remark
    UNION ALL
    SELECT rank, unnest([
        {
            'check_name': 'dispatches missing', 'value': span - dispatches, 'total': span, 'ok': span = dispatches,
            'note': 'numbers of kernels that the file skips, of kernels that ran but are not in it; numbers from its first '
            || 'kernel to its last' || CASE
                WHEN graph_launches > 0 OR calls = 0 THEN graph_advice(span - dispatches)
                WHEN span > dispatches THEN '. They were filtered out, or the profiler lost them; no HIP graph was launched'
                ELSE ''
            END
        },
        {
            'check_name': 'records without times', 'value': NULLIF(without_times, 0), 'total': timed, 'ok': FALSE,
            'note': 'records with zeros for times, which are left out; all of this kind'
        },
        {
            'check_name': 'records that end before they begin', 'value': NULLIF(backward, 0), 'total': forward,
            'ok': FALSE, 'note': 'records whose times cannot be, which are left out; all of this kind'
        }
    ], recursive := TRUE)
    FROM process_sum
    UNION ALL
    SELECT
        rank, 'records that cannot be read', NULLIF(SUM(records), 0), SUM(records), FALSE,
        'in ' || what || ', which are left out'
    FROM unread
    INNER JOIN rank_part USING (process)
    WHERE is_first
    GROUP BY rank, what
    UNION ALL
    SELECT rank, 'records ' || what, 0, records, NULL, 'records loaded; records in the file'
    FROM not_loaded
    INNER JOIN rank_part USING (process)
    WHERE is_first AND records > 0
)

FROM said
WHERE value IS NOT NULL;
