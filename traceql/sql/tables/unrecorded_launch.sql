-- One row per call that launches a kernel, a graph or a copy, and of which the file has no GPU activity.
--
-- Calls that set memory are not among them: libraries often set 0 bytes, of which there is no activity. The same goes for
-- copies that no operator of PyTorch made, where the profiler is PyTorch's, and for all copies where none
-- was recorded. Of Ascend devices, calls and tasks have no common number.
-- @scope  rank
-- @needs  classified_kernel, launch, recording_span, slice, trace
-- @column id      BIGINT   Call (launch.id).
-- @column rank    BIGINT   Rank that made the call.
-- @column ts      BIGINT   Start of the call on the host, ns since the run's first event.
-- @column what    VARCHAR  kernel (a kernel or a graph) or copy.
-- @column reason  VARCHAR  Why there is none: captured (the call is inside the capture of a graph, which only notes what will run: between the calls that begin and end a capture of its process, or in a row of such calls of its thread that ends with the end of a capture or the making of a graph), cut (it was still queued, or less than 1 ms old, when the recording ended: no activity was launched later, and the device was not awaited after it) or lost (its record is missing).
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
rank_activity AS (
    SELECT
        rank,
        MAX(ts + dur) AS end_ts,
        BOOL_OR(launch_id IS NOT NULL) AS has_launches,
        BOOL_OR(kind = 'memcpy') AS has_copies
    FROM classified_kernel
    GROUP BY rank
),
recorded AS MATERIALIZED (SELECT DISTINCT launch_id AS id FROM classified_kernel WHERE launch_id IS NOT NULL),
unmatched AS MATERIALIZED (  -- so that only their arguments are read
    SELECT called.*
    FROM called
    ANTI JOIN recorded ON called.id = recorded.id
    WHERE called.is_kernel OR called.is_copy
),
missing AS MATERIALIZED (
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
        -- What a call of the runtime or driver returned, where it failed.
        AND COALESCE(CAST(json_extract_string(slice.args, '$.returnValue') AS BIGINT), 0) = 0
),
mark AS (
    SELECT launch.rank, slice.pid, launch.tid, launch.ts, contains(launch.name, 'BeginCapture') AS is_begin
    FROM launch
    INNER JOIN slice ON launch.id = slice.id
    WHERE regexp_matches(launch.name, 'Stream(Begin|End)Capture|GraphInstantiate') AND launch.rank IN (SELECT rank FROM missing)
),
capture AS (
    SELECT rank, pid, ts, end_ts
    FROM (SELECT *, LEAD(ts) OVER (PARTITION BY rank, tid ORDER BY ts) AS end_ts FROM mark)
    WHERE is_begin
),
inside AS (
    SELECT DISTINCT missing.id
    FROM missing
    INNER JOIN capture
        ON missing.rank = capture.rank
        AND missing.pid IS NOT DISTINCT FROM capture.pid
        AND missing.ts >= capture.ts
        AND missing.ts < COALESCE(capture.end_ts, 9223372036854775807)
),
-- Of a capture that began before the recording, only the end is in the file.
next_mark AS (
    SELECT missing.id, missing.rank, missing.tid, missing.ts, mark.ts AS end_ts
    FROM missing
    ASOF INNER JOIN (FROM mark WHERE NOT is_begin) AS mark
        ON missing.rank = mark.rank AND missing.tid = mark.tid AND missing.ts <= mark.ts
),
of_thread AS (
    SELECT launch.rank, launch.tid, launch.ts
    FROM launch
    INNER JOIN recorded ON launch.id = recorded.id
    WHERE launch.rank IN (SELECT rank FROM next_mark)
),
before_mark AS (
    SELECT next_mark.id
    FROM next_mark
    ASOF LEFT JOIN of_thread
        ON next_mark.rank = of_thread.rank AND next_mark.tid = of_thread.tid AND next_mark.ts <= of_thread.ts
    WHERE COALESCE(of_thread.ts > next_mark.end_ts, TRUE)
),
uncaptured AS (
    FROM missing
    WHERE id NOT IN (FROM inside) AND id NOT IN (FROM before_mark)
),
last_launch AS (
    SELECT
        launch.rank,
        MAX(launch.ts) FILTER (launch.id IN (SELECT id FROM recorded)) AS ts,
        MAX(launch.ts) FILTER (regexp_matches(launch.name, '(Device|Ctx)Synchronize')) AS awaited_ts
    FROM launch
    WHERE launch.rank IN (SELECT rank FROM uncaptured)
    GROUP BY launch.rank
),
-- All that were launched after the last recorded activity were cut off, or none was.
cut_rank AS (
    SELECT uncaptured.rank, ANY_VALUE(last_launch.ts) AS ts
    FROM uncaptured
    INNER JOIN last_launch ON uncaptured.rank = last_launch.rank AND uncaptured.ts > last_launch.ts
    INNER JOIN rank_activity ON uncaptured.rank = rank_activity.rank
    INNER JOIN recording_span AS span ON uncaptured.rank = span.rank
    GROUP BY uncaptured.rank
    HAVING BOOL_AND(
        COALESCE(uncaptured.ts > last_launch.awaited_ts, TRUE)
        AND (uncaptured.ts <= rank_activity.end_ts OR uncaptured.ts > span.last_ts - 1000000)
    )
)
SELECT
    missing.id, missing.rank, missing.ts, missing.what,
    CASE
        WHEN missing.id NOT IN (SELECT id FROM uncaptured) THEN 'captured'
        WHEN missing.ts > cut_rank.ts THEN 'cut'
        ELSE 'lost'
    END AS reason
FROM missing
LEFT JOIN cut_rank USING (rank)
ORDER BY missing.id
