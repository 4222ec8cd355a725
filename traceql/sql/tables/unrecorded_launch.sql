-- One row per call that launches a kernel, a graph or a copy, and of which the file has no GPU activity.
--
-- Calls that set memory do not count: libraries often set 0 bytes, and no activity is recorded for that. Neither do copies that
-- no operator made (in recordings of PyTorch's profiler), nor any copies if the file has no copy at all. On Ascend, calls and
-- tasks have no number in common.
-- @scope  rank
-- @needs  classified_kernel, launch, recording_span, slice, unmatched_launch
-- @empty_unless unmatched_launch
-- @column id      BIGINT   Call (launch.id).
-- @column rank    BIGINT   Rank that made the call.
-- @column ts      BIGINT   Start of the call on the host, ns since the run's first event.
-- @column what    VARCHAR  kernel (a kernel or a graph) or copy.
-- @column reason  VARCHAR  Why there is none: captured (the call is inside the capture of a graph, which only notes what will run: between the calls that begin and end a capture of its process, or in a row of such calls of its thread that ends with the end of a capture or the making of a graph), cut (it was still queued, or less than 1 ms old, when the recording ended: no activity was launched later, and the device was not awaited after it) or lost (its record is missing).
WITH rank_activity AS (
    SELECT rank, MAX(ts + dur) AS end_ts
    FROM classified_kernel
    GROUP BY rank
),
recorded AS MATERIALIZED (SELECT DISTINCT launch_id AS id FROM classified_kernel WHERE launch_id IS NOT NULL),
mark AS (
    SELECT launch.rank, slice.pid, launch.tid, launch.ts, contains(launch.name, 'BeginCapture') AS is_begin
    FROM launch
    INNER JOIN slice ON launch.id = slice.id
    WHERE regexp_matches(launch.name, 'Stream(Begin|End)Capture|GraphInstantiate') AND launch.rank IN (SELECT rank FROM unmatched_launch)
),
capture AS (
    SELECT rank, pid, ts, end_ts
    FROM (SELECT *, LEAD(ts) OVER (PARTITION BY rank, tid ORDER BY ts) AS end_ts FROM mark)
    WHERE is_begin
),
inside AS (
    SELECT DISTINCT unmatched_launch.id
    FROM unmatched_launch
    INNER JOIN capture
        ON unmatched_launch.rank = capture.rank
        AND unmatched_launch.pid IS NOT DISTINCT FROM capture.pid
        AND unmatched_launch.ts >= capture.ts
        AND unmatched_launch.ts < COALESCE(capture.end_ts, 9223372036854775807)
),
-- Of a capture that began before the recording, only the end is in the file.
next_mark AS (
    SELECT unmatched_launch.id, unmatched_launch.rank, unmatched_launch.tid, unmatched_launch.ts, mark.ts AS end_ts
    FROM unmatched_launch
    ASOF INNER JOIN (FROM mark WHERE NOT is_begin) AS mark
        ON unmatched_launch.rank = mark.rank AND unmatched_launch.tid = mark.tid AND unmatched_launch.ts <= mark.ts
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
    FROM unmatched_launch
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
    unmatched_launch.id, unmatched_launch.rank, unmatched_launch.ts, unmatched_launch.what,
    CASE
        WHEN unmatched_launch.id NOT IN (SELECT id FROM uncaptured) THEN 'captured'
        WHEN unmatched_launch.ts > cut_rank.ts THEN 'cut'
        ELSE 'lost'
    END AS reason
FROM unmatched_launch
LEFT JOIN cut_rank USING (rank)
ORDER BY unmatched_launch.id
