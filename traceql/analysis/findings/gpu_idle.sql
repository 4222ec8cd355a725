-- A GPU is idle for a large part of its span, and late launches of its host do not explain it.
--
-- Idle time that the host caused is reported as host-bound steps.
-- @title      GPU idle
-- @notable    10
-- @severe     30
-- @unit       % of the run
-- @evidence   time.lost rank=rank
-- @advice     idle.gaps lists the longest gaps, with the kernels before and after them.
-- @source     rule of thumb: a GPU should be busy for more than 80% of the time
-- @threshold  long = 100000  Mean length of the gaps, ns, from which single gaps are to blame rather than the delay of each kernel.
-- @needs      finding_rule, host_clock, lost_time, rank_window, run_window, step, waiting, wording
WITH caused AS (
    SELECT
        rank, cause,
        SUM(lost_time.ns) // ANY_VALUE(rank_window.devices) AS ns,
        SUM(lost_time.ns) / SUM(intervals) AS mean_ns,
        arg_max(longest_ts, (longest_ns, -longest_ts)) AS ts,
        MAX(longest_ns) AS dur
    FROM lost_time
    INNER JOIN rank_window USING (rank)
    WHERE part = 'idle' AND cause IN ('launch', 'dependency', 'unknown')
    GROUP BY rank, cause
),
phase AS (
    SELECT lost_time.rank, step.phase, SUM(lost_time.ns) // ANY_VALUE(rank_window.devices) AS ns
    FROM lost_time
    INNER JOIN rank_window USING (rank)
    INNER JOIN step ON lost_time.root_step_id = step.step_id
    WHERE lost_time.part = 'idle' AND lost_time.cause IN ('launch', 'dependency', 'unknown') AND step.phase IS NOT NULL
    GROUP BY lost_time.rank, step.phase
    QUALIFY ROW_NUMBER() OVER (PARTITION BY lost_time.rank ORDER BY SUM(lost_time.ns) DESC, step.phase) = 1
),
idle AS (
    SELECT
        rank,
        SUM(ns) AS ns,
        SUM(SUM(ns)) OVER () AS all_ns,
        arg_max(cause, ns) AS cause,
        MAX(ns) AS cause_ns,
        arg_max(mean_ns, ns) AS mean_ns,
        arg_max(ts, ns) AS ts,
        arg_max(dur, ns) AS dur
    FROM caused
    GROUP BY rank
)
SELECT
    100.0 * idle.ns / rank_window.ns AS value,
    idle.all_ns AS cost_ns,
    format(
        '{} {} of rank {} is idle for {:.1f} ms, {:.0f}% of its span{}{}. {:.0f}% of it has the cause ''{}''{}{}.',
        CASE WHEN rank_window.devices > 1 THEN 'Each' ELSE 'The' END, wording.device, idle.rank, idle.ns / 1e6, 100.0 * idle.ns / rank_window.ns,
        CASE WHEN rank_window.devices > 1 THEN ' on average' ELSE '' END,
        CASE WHEN idle.cause = 'unknown' OR NOT host_clock.agrees THEN '' ELSE ', although its host is not late' END,
        100.0 * idle.cause_ns / idle.ns, idle.cause,
        CASE idle.cause
            WHEN 'dependency' THEN ': the next kernel waited for another stream'
            WHEN 'launch' THEN ': the next kernel was launched but had not started'
            ELSE CASE
                WHEN NOT host_clock.agrees
                    THEN ': the clocks of host and device do not agree, so that the trace does not show what it waited for'
                ELSE ': the trace does not show the launch of the next kernel'
            END
        END,
        CASE WHEN phase.phase IS NOT NULL
            THEN format('; {} steps have {:.0f}% of it', phase.phase, 100.0 * phase.ns / idle.ns)
        ELSE '' END
    ) AS finding,
    CASE
        WHEN NOT host_clock.agrees THEN 'Record again, with a newer version of the profiler if there is one: it converts the times.'
        WHEN idle.cause = 'unknown' THEN wording.calls_advice
        WHEN idle.mean_ns < rule.thresholds['long']
            THEN 'Larger batches give each kernel more work for the same delay; kernels that are fused need fewer starts.'
    END AS advice,
    idle.rank, idle.ts, idle.dur
FROM idle
INNER JOIN rank_window USING (rank)
CROSS JOIN (SELECT thresholds FROM finding_rule WHERE finding = 'GPU idle') AS rule
CROSS JOIN wording
LEFT JOIN phase USING (rank)
LEFT JOIN host_clock USING (rank)
-- If the others wait for this rank for the same reason, finding late rank reports it.
WHERE idle.rank NOT IN (
    SELECT waiting.rank
    FROM waiting
    CROSS JOIN run_window
    WHERE
        waiting.is_alone
        AND waiting.cause = idle.cause
        AND 100.0 * waiting.each_ns / run_window.ns
        >= (SELECT notable FROM finding_rule WHERE finding = 'late rank')
)
QUALIFY ROW_NUMBER() OVER (ORDER BY idle.ns / rank_window.ns DESC, idle.rank) = 1
