-- One row per call that launches a kernel, a graph or a copy, and of which the file has no GPU activity (see unrecorded_launch), before the reason is known.
-- @kind   scratch
-- @scope  rank
-- @needs  classified_kernel, launch, slice, trace
-- @column id    BIGINT   Call (launch.id).
-- @column rank  BIGINT   Rank that made the call.
-- @column pid   BIGINT   Its process.
-- @column tid   BIGINT   Its thread.
-- @column ts    BIGINT   Start of the call on the host, ns since the run's first event.
-- @column what  VARCHAR  kernel (a kernel or a graph) or copy.
WITH called AS (
    SELECT
        rank, correlation,
        MIN(id) AS id,
        BOOL_OR(name LIKE '%LaunchKernel%' OR name LIKE '%LaunchCooperativeKernel%' OR name LIKE '%GraphLaunch%') AS is_kernel,
        BOOL_OR(name LIKE '%Memcpy%') AS is_copy
    FROM launch
    WHERE name LIKE '%Launch%' OR name LIKE '%Memcpy%'
    -- A call of the runtime and the call of the driver inside it may have the same correlation.
    GROUP BY rank, correlation, CASE WHEN COALESCE(correlation, 0) = 0 THEN id END
),
recorded AS MATERIALIZED (SELECT DISTINCT launch_id AS id FROM classified_kernel WHERE launch_id IS NOT NULL),
unmatched AS MATERIALIZED (
    SELECT called.*
    FROM called
    ANTI JOIN recorded ON called.id = recorded.id
    WHERE called.is_kernel OR called.is_copy
),
rank_activity AS (
    SELECT
        rank,
        COUNT(launch_id) > 0 AS has_launches,
        COUNT(*) FILTER (kind = 'memcpy') > 0 AS has_copies
    FROM classified_kernel
    WHERE rank IN (SELECT rank FROM unmatched)
    GROUP BY rank
)
SELECT
    called.id, called.rank, slice.pid, slice.tid, slice.ts,
    CASE WHEN called.is_kernel THEN 'kernel' ELSE 'copy' END AS what
FROM unmatched AS called
INNER JOIN slice ON called.id = slice.id
INNER JOIN trace ON called.rank = trace.rank
LEFT JOIN rank_activity ON called.rank = rank_activity.rank
WHERE
    -- Where no activity has a launch call, correlations are missing and not activities.
    COALESCE(rank_activity.has_launches AND called.correlation <> 0, rank_activity.rank IS NULL)
    AND CASE
        WHEN called.is_kernel THEN trace.dialect <> 'ascend' OR rank_activity.rank IS NULL
        WHEN rank_activity.rank IS NULL OR trace.dialect = 'ascend' THEN FALSE
        WHEN trace.dialect = 'pytorch' THEN slice.external_id > 0
        ELSE rank_activity.has_copies
    END
    -- What a call of the runtime or driver returned, where it failed. As this reads both tables, DuckDB joins them first.
    AND CASE
        WHEN called.is_kernel OR called.is_copy
            THEN COALESCE(CAST(json_extract_string(slice.args, '$.returnValue') AS BIGINT), 0) = 0
    END
