-- One row per check of the ledger about what a profiler lost, or could not time: nothing in most recordings.
-- @kind   scratch
-- @scope  rank
-- @needs  activity, host_clock, launch, recording_span, slice, unrecorded_launch
-- @empty_unless host_clock WHERE early > 0 OR late > 0 OR drift_ns <> 0
-- @empty_unless recording_span WHERE earliest_ts IS NOT NULL
-- @empty_unless unrecorded_launch
-- @column place       INTEGER  Place among the checks of a rank.
-- @column rank        BIGINT   Rank that the check is about.
-- @column check_name  VARCHAR  Name of the check.
-- @column value       BIGINT   What was found.
-- @column total       BIGINT   The whole that value is a part of.
-- @column ok          BOOLEAN  Whether the check holds; NULL if there is nothing to check.
-- @column note        VARCHAR  Meaning of value and total.
-- Calls that launch kernels, graphs or copies, of which the file has no activity.
WITH unrecorded AS (
    SELECT unrecorded_launch.rank, unrecorded_launch.what, unrecorded_launch.reason, slice.pid, COUNT(*) AS calls
    FROM unrecorded_launch
    INNER JOIN slice USING (id)
    GROUP BY ALL
),
called AS (
    SELECT
        rank,
        CASE WHEN regexp_matches(name, 'Launch(Cooperative)?Kernel|GraphLaunch') THEN 'kernel' ELSE 'copy' END AS what,
        COUNT(DISTINCT CASE WHEN correlation <> 0 THEN correlation ELSE -id END) AS calls
    FROM launch
    WHERE regexp_matches(name, 'Launch(Cooperative)?Kernel|GraphLaunch|Memcpy') AND rank IN (SELECT rank FROM unrecorded)
    GROUP BY ALL
),
-- Events of the host whose times cannot be.
odd_time AS (
    SELECT slice.rank, COUNT(*) AS events
    FROM slice
    ANTI JOIN activity ON slice.id = activity.id
    -- Without these bounds, the span is that of all events.
    INNER JOIN (FROM recording_span WHERE earliest_ts IS NOT NULL) AS span ON slice.rank = span.rank
    WHERE slice.ts < span.first_ts OR slice.ts + slice.dur > span.last_ts
    GROUP BY slice.rank
)
SELECT
    50 AS place, missing.rank,
    CASE missing.what WHEN 'kernel' THEN 'launches without a recorded kernel' ELSE 'copies without a record' END AS check_name,
    missing.calls AS value, called.calls - captured.calls AS total, FALSE AS ok,
    CASE missing.what
        WHEN 'kernel' THEN 'calls that launch a kernel or a graph, of which the file has no kernel; all such calls outside of captures of graphs. '
        ELSE 'calls that copy memory, of which the file has no copy; all such calls outside of captures of graphs. '
    END
    || 'The profiler lost these records, so that what looks like idle time may be theirs (gap.cause: not recorded). Record for a shorter time or with larger buffers, and only what is needed' AS note
FROM (
    SELECT rank, what, CAST(SUM(calls) AS BIGINT) AS calls FROM unrecorded WHERE reason = 'lost' GROUP BY ALL
) AS missing
INNER JOIN called USING (rank, what)
CROSS JOIN LATERAL (
    SELECT CAST(COALESCE(SUM(calls), 0) AS BIGINT) AS calls
    FROM unrecorded
    WHERE unrecorded.rank = missing.rank AND unrecorded.what = missing.what AND unrecorded.reason = 'captured'
) AS captured
UNION ALL
SELECT
    50, rank,
    CASE reason WHEN 'cut' THEN 'launches cut off by the end' ELSE 'launches in captures of graphs' END,
    CAST(SUM(calls) AS BIGINT), NULL, NULL,
    CASE reason
        WHEN 'cut' THEN 'calls at the end of the recording that launch a kernel, a graph or a copy, which had not run when the recording ended'
        ELSE 'calls inside the captures of graphs, which only note what will run'
    END
FROM unrecorded
WHERE reason IN ('cut', 'captured')
GROUP BY rank, reason
UNION ALL
SELECT
    50, rank, 'events with impossible times', events, NULL, FALSE,
    'events of the host whose times cannot be, such as 0 or another year. What calls among them launched has no step, and why the GPU was idle before it is unknown (gap.cause)'
FROM odd_time
UNION ALL
SELECT
    50, rank, 'kernels before their launch', early, kernels, FALSE,
    'GPU activities that start before the call that launched them began, by up to ' || format('{:,.0f} µs', early_ns / 1000)
    || '; all with a launch call. The clocks of host and GPU do not agree: what the host did while the GPU was idle is unknown (gap.cause), and so are launch latencies; busy and idle time is right'
FROM host_clock
WHERE early > 0
UNION ALL
SELECT
    50, rank, 'kernels after the host waited for them', late, waits, CASE WHEN NOT agrees THEN FALSE END,
    'calls that waited for a GPU activity and returned before it ended, by up to ' || format('{:,.0f} µs', late_ns / 1000)
    || '; all such calls. The clocks of host and GPU do not agree'
FROM host_clock
WHERE late > 0
UNION ALL
SELECT
    50, rank, 'drift of the GPU clock', drift_ns, NULL, FALSE,
    'how much the clock of the GPU gains on that of the host during the recording, ns: kernels start ever later after their launch, or ever earlier. The clocks of host and GPU do not agree'
FROM host_clock
WHERE drift_ns <> 0
