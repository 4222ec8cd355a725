-- A GPU is idle for a large part of its span.
-- @title      GPU idle
-- @notable    20
-- @severe     50
-- @unit       % of the run
-- @threshold  doing = 0.1  Share of the idle time that the host must spend in one kind of event for the sentence to name it.
-- @threshold  launched = 0.5  Share of the idle time that must come after the launch of the next kernel for the sentence to say so.
-- @evidence   idle.host rank=rank
-- @advice     Use CUDA graphs to save launch calls, asynchronous scheduling for the work between
-- @advice     steps, or larger batches.
-- @source     rule of thumb: a GPU should be busy for more than 80% of the time
-- @needs      finding_rule, gap, host_gap, idle_cause, is_caused_by_host, kernel, launch, rank_window
WITH idlest AS (
    SELECT rank, idle_ns, ns, SUM(idle_ns) OVER () AS all_ns
    FROM rank_window
    QUALIFY ROW_NUMBER() OVER (ORDER BY idle_ns / ns DESC, rank) = 1
),
doing AS (
    SELECT rank, arg_max(name, ns) AS name, MAX(ns) AS ns
    FROM (SELECT rank, name, SUM(ns) AS ns FROM host_gap GROUP BY rank, name)
    GROUP BY rank
),
-- The part of the gaps that the host caused in which the next kernel was already launched.
launched AS (
    SELECT
        gap.rank,
        SUM(gap.dur - LEAST(GREATEST(launch.ts + launch.dur - gap.ts, 0), gap.dur)) AS ns
    FROM gap
    INNER JOIN kernel ON gap.next_kernel_id = kernel.id
    INNER JOIN launch ON kernel.launch_id = launch.id
    WHERE is_caused_by_host(gap.cause)
    GROUP BY gap.rank
),
rule AS (
    SELECT thresholds FROM finding_rule WHERE finding = 'GPU idle'
)
SELECT
    100.0 * idlest.idle_ns / idlest.ns AS value,
    idlest.all_ns AS cost_ns,
    format(
        'The GPU of rank {} is idle for {:.1f} ms, {:.0f}% of its span. {:.0f}% of the idle time has the cause ''{}''{}{}{}.',
        idlest.rank, idlest.idle_ns / 1e6, 100.0 * idlest.idle_ns / idlest.ns,
        100.0 * idle_cause.ns / idlest.idle_ns,
        idle_cause.cause,
        CASE idle_cause.cause
            WHEN 'sync' THEN ': the host was blocked in a synchronizing call'
            WHEN 'host' THEN ': the next kernel was launched late'
            WHEN 'dependency' THEN ': the next kernel waited for another stream'
            WHEN 'launch' THEN ': the next kernel was launched but had not started'
            ELSE ''
        END,
        CASE
            WHEN doing.ns > rule.thresholds['doing'] * idlest.idle_ns
                THEN format(
                    '; {:.0f}% passed while its host was in {}', 100.0 * doing.ns / idlest.idle_ns, doing.name
                )
            ELSE ''
        END,
        CASE
            WHEN launched.ns > rule.thresholds['launched'] * idlest.idle_ns
                THEN format(
                    '; for {:.0f}% the next kernel was already launched, and the trace does not show why it did not start',
                    100.0 * launched.ns / idlest.idle_ns
                )
            ELSE ''
        END
    ) AS finding,
    idlest.rank
FROM idlest
INNER JOIN idle_cause USING (rank)
CROSS JOIN rule
LEFT JOIN doing USING (rank)
LEFT JOIN launched USING (rank)
