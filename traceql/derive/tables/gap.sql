-- One row per interval of a rank's GPU span in which a device did nothing, with the cause.
-- @schema main
-- @scope  rank
-- @needs  device_wait, idle, launch
-- @empty_unless idle
-- @column rank                BIGINT   Rank.
-- @column device              BIGINT   Number of the device on its machine.
-- @column ts                  BIGINT   Start, ns since the run's first event.
-- @column dur                 BIGINT   Duration, ns.
-- @column cause               VARCHAR  Why the device was idle. sync: the launching thread, or the one that had asked it to launch, was blocked in a synchronizing call for at least half of the time from the start of the gap to the launch call of the next kernel. host: that launch call began after the start of the gap. dependency: the next kernel had been launched, but waited for an event of another stream: its host had asked for that, or its stream spent at least half of the gap on it. launch: it had been launched, but had not started yet. unknown: its launch call is not in the trace, or there is no next kernel.
-- @column step_id             BIGINT   Step of the kernel that ended the gap, or else of the kernel before the gap.
-- @column previous_kernel_id  BIGINT   Kernel that ended when the gap began (kernel.id); NULL at the start of the GPU span.
-- @column next_kernel_id      BIGINT   Kernel that ended the gap (kernel.id); NULL at the end of the GPU span.
-- @column track_id            BIGINT   Track of the host thread that asked for that kernel (slice.track_id): the launching one, or the one that had asked it to launch. NULL if unknown.
WITH bounded AS NOT MATERIALIZED (
    SELECT *, LEAST(launch_ts, ts + dur) AS issued_ts
    FROM idle
),
-- Calls of a thread are nested. Only the outermost one counts, because the time of a call inside
-- it is part of its own.
outermost_call AS (
    SELECT rank, tid, ts, GREATEST(dur, 0) AS dur
    FROM launch
    WHERE regexp_matches(name, '(Device|Stream|Event|Ctx)Synchronize|aclrtSynchronize(Device|Stream|Event)|^(cuda|hip)Memcpy(WithStream)?$|aclrtMemcpy$')
    QUALIFY COALESCE(ts >= MAX(ts + dur) OVER (
        PARTITION BY rank, tid ORDER BY ts, dur DESC, id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), TRUE)
),
blocking_call AS (
    SELECT
        *,
        COALESCE(SUM(dur) OVER (
            PARTITION BY rank, tid ORDER BY ts, dur
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS before_ns
    FROM outermost_call
),
-- Time that the thread which asked for the next kernel, mostly the launching one, was blocked between
-- the start of the gap and the launch call of the next kernel: the difference of running totals.
-- A kernel ends one gap at most, so that its id stands for the gap.
blocked AS (
    SELECT
        bounded.next_kernel_id,
        COALESCE(until.before_ns + LEAST(until.dur, bounded.issued_ts - until.ts), 0)
        - COALESCE(since.before_ns + LEAST(since.dur, bounded.ts - since.ts), 0) AS blocked_ns
    FROM (FROM bounded WHERE launch_ts > ts) AS bounded
    ASOF LEFT JOIN blocking_call AS until
        ON bounded.rank = until.rank
        AND bounded.issuing_tid = until.tid
        AND bounded.issued_ts >= until.ts
    ASOF LEFT JOIN blocking_call AS since
        ON bounded.rank = since.rank
        AND bounded.issuing_tid = since.tid
        AND bounded.ts >= since.ts
),
-- Time that the stream of the next kernel waited for events, as its device tells.
device_waited AS (
    SELECT
        bounded.next_kernel_id,
        SUM(LEAST(device_wait.end_ts, bounded.ts + bounded.dur) - GREATEST(device_wait.ts, bounded.ts)) AS ns
    FROM bounded
    INNER JOIN device_wait
        ON bounded.rank = device_wait.rank
        AND bounded.stream = device_wait.stream
        AND device_wait.ts < bounded.ts + bounded.dur
        AND device_wait.end_ts > bounded.ts
    GROUP BY ALL
),
stream_wait AS (
    SELECT rank, tid, ts FROM launch WHERE name LIKE '%StreamWaitEvent%'
),
-- The last wait for an event that the launching thread issued before the next kernel.
awaited AS (
    SELECT
        bounded.next_kernel_id,
        stream_wait.ts AS wait_ts
    FROM (FROM bounded WHERE other_stream AND launch_ts <= ts) AS bounded
    ASOF INNER JOIN stream_wait
        ON bounded.rank = stream_wait.rank
        AND bounded.tid = stream_wait.tid
        AND bounded.launch_ts >= stream_wait.ts
)
SELECT
    bounded.rank,
    bounded.device,
    bounded.ts,
    bounded.dur,
    CASE
        WHEN blocked.blocked_ns * 2 >= bounded.issued_ts - bounded.ts THEN 'sync'
        WHEN bounded.launch_ts > bounded.ts THEN 'host'
        -- The wait came after the launch call of the previous kernel on the same stream. Where a device
        -- tells its waits, they alone decide.
        WHEN
            awaited.wait_ts > COALESCE(bounded.earlier_launch_ts, awaited.wait_ts - 1)
            AND bounded.rank NOT IN (SELECT rank FROM device_wait)
            THEN 'dependency'
        WHEN device_waited.ns * 2 >= bounded.dur THEN 'dependency'
        WHEN bounded.launch_ts IS NOT NULL THEN 'launch'
        ELSE 'unknown'
    END AS cause,
    bounded.step_id,
    bounded.previous_kernel_id,
    bounded.next_kernel_id,
    bounded.track_id
FROM bounded
LEFT JOIN blocked USING (next_kernel_id)
LEFT JOIN device_waited USING (next_kernel_id)
LEFT JOIN awaited USING (next_kernel_id)
ORDER BY bounded.rank, bounded.device, bounded.ts
