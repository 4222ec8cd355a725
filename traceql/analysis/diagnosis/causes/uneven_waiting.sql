-- Ranks wait for each other in collectives, for other reasons than their hosts, and no more specific cause explains it.
-- @title   uneven waiting
-- @group   communication
-- @most    notable
-- @after   expert_imbalance, gpu_shared, gpu_throttled, late_rank_gpu, slow_host_rank
-- @query   comm.stragglers
-- @record  Record all ranks at the same time.
-- @source  own: in healthy recordings ranks wait less than 2% of a step for reasons other than their hosts
-- @needs   time_scale, time_unit, trace
WITH
-- Ranks most of whose own idle time has no known cause, such as those without launch calls. There, a late start
-- (cause launch) may be the host's as well.
obscure AS (
    SELECT rank
    FROM time_unit
    WHERE part = 'lost' AND NOT is_waiting
    GROUP BY rank
    HAVING COALESCE(SUM(ns) FILTER (cause = 'unknown'), 0) > 0.5 * SUM(ns)
),
waited AS (
    SELECT
        time_unit.*,
        time_unit.cause = 'unknown' OR (time_unit.cause = 'launch' AND obscure.rank IS NOT NULL) AS is_uncertain
    FROM time_unit
    LEFT JOIN obscure ON time_unit.root_rank = obscure.rank
    WHERE
        time_unit.is_waiting AND time_unit.root_rank IS NOT NULL
        AND time_unit.cause IN ('kernel', 'preemption', 'copy', 'launch', 'dependency', 'unknown')
),
unexplained AS (
    FROM waited WHERE NOT is_uncertain
),
spent AS (
    SELECT
        list({'unit': unit, 'ns': ns} ORDER BY unit) AS claims,
        COALESCE(SUM(ns), 0) AS ns,
        COUNT(DISTINCT number) AS steps,
        arg_max(rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur
    FROM unexplained
),
-- For whom ranks wait, and why: of its communicator, a rank has an equal share of 1 / ranks.
root AS (
    SELECT
        arg_max(root_rank, ns) AS rank,
        MAX(ns) / NULLIF(SUM(ns), 0) AS share,
        arg_max(cause, ns) AS cause
    FROM (SELECT root_rank, SUM(ns) AS ns, arg_max(cause, ns) AS cause FROM unexplained GROUP BY root_rank)
),
by_cause AS (
    SELECT arg_max(cause, ns) AS cause, MAX(ns) / NULLIF(SUM(ns), 0) AS share
    FROM (SELECT cause, SUM(ns) AS ns FROM unexplained GROUP BY cause)
),
uncertain AS (
    SELECT COALESCE(SUM(ns), 0) AS ns FROM waited WHERE is_uncertain
),
loaded AS (
    SELECT MAX(world_size) AS world_size, COUNT(rank) AS ranks FROM trace
),
judged AS (
    SELECT
        spent.*, root.rank AS late_rank, root.share AS late_share, by_cause.cause, by_cause.share AS cause_share, loaded.world_size, loaded.ranks,
        spent.ns / (scale.devices * scale.steps) AS wait_ns,
        spent.ns / NULLIF(scale.lost_ns * scale.devices * scale.steps, 0) AS share_of_loss,
        spent.ns * COALESCE(scale.scale, 1) / (scale.devices * scale.steps * scale.step_ns) AS share,
        uncertain.ns * COALESCE(scale.scale, 1) / (scale.devices * scale.steps * scale.step_ns) AS uncertain_share
    FROM spent
    CROSS JOIN root
    CROSS JOIN by_cause
    CROSS JOIN loaded
    CROSS JOIN uncertain
    LEFT JOIN time_scale AS scale ON TRUE
)
SELECT
    CASE
        WHEN world_size = 1 THEN FALSE
        WHEN share IS NULL OR (ns = 0 AND ranks < world_size) THEN NULL
        WHEN share >= 0.02 AND steps < 3 THEN NULL
        WHEN share < 0.02 AND share + uncertain_share >= 0.02 THEN NULL
        ELSE share >= 0.02
    END AS is_confirmed,
    CASE
        WHEN world_size = 1 THEN 'the run has one rank'
        WHEN share IS NULL THEN 'no kernel was recorded'
        WHEN ns = 0 AND ranks < world_size THEN 'not all ranks are loaded, so waiting is unknown'
        WHEN share < 0.02 AND share + uncertain_share >= 0.02
            THEN format('ranks wait {:.0f}% of a step for reasons that were not recorded; record launch calls (CPU activities) too', 100 * uncertain_share)
        WHEN share < 0.02 THEN format('ranks wait for each other for {:.1f}% of a step, other than for a host', 100 * share)
        WHEN steps < 3 THEN format('too few steps have such waits to judge by ({}); record more', steps)
    END AS reason,
    'Ranks wait {saving} a step for each other, for other reasons than their hosts' AS headline,
    [
        format('They wait {:.2f} ms a step in collectives, as recorded.', wait_ns / 1e6),
        format(
            '{:.0f}% of it comes from {}.', 100 * cause_share,
            CASE cause
                WHEN 'kernel' THEN 'kernels that take longer on the late rank'
                WHEN 'preemption' THEN 'kernels on other streams of the late rank'
                WHEN 'copy' THEN 'copies on the late rank'
                WHEN 'launch' THEN 'kernels that start late after their launch'
                ELSE 'streams of the late rank that wait for each other'
            END
        ),
        CASE
            -- One rank is named only where making it equal saves a quarter of the loss.
            WHEN late_share * ranks > 1.5 AND late_share > 0.5 AND late_share * share_of_loss > 0.25 THEN format('{:.0f}% of it is for rank {}.', 100 * late_share, late_rank)
            ELSE 'No single rank holds up the others.'
        END
    ] AS evidence,
    'traceql run comm.stragglers DB lists who was late, by step; then equal tokens and equal kernels on all ranks' AS remedy,
    'Why the ranks differ.' AS unknowns,
    claims, steps AS samples, rank, ts, dur
FROM judged
