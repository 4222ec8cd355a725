-- One row per communicator: the rank that the others waited for most, for how long, and why.
--
-- Only waits that no other finding explains: not those for a host that was late (host-bound steps),
-- for another communicator, or for what was not recorded or is uncertain.
-- @needs  communicator, finding_rule, lost_time, step
WITH unexplained AS (
    SELECT lost_time.*, step.phase
    FROM lost_time
    LEFT JOIN step ON lost_time.root_step_id = step.step_id
    WHERE
        lost_time.part = 'exposed_wait'
        AND lost_time.root_rank IS NOT NULL
        AND lost_time.cause IN ('kernel', 'preemption', 'copy', 'launch', 'dependency', 'unknown')
),
caused AS (
    SELECT communicator_id, root_rank, cause, SUM(ns) AS ns, arg_max(longest_ts, (longest_ns, -longest_ts)) AS ts,
        arg_max(rank, longest_ns) AS at_rank, MAX(longest_ns) AS dur
    FROM unexplained
    GROUP BY ALL
),
blamed AS (
    SELECT
        communicator_id,
        root_rank AS rank,
        SUM(ns) AS ns,
        SUM(ns) / SUM(SUM(ns)) OVER (PARTITION BY communicator_id) AS share,
        arg_max(cause, ns) AS cause,
        100.0 * MAX(ns) / SUM(ns) AS cause_pct,
        arg_max(at_rank, dur) AS at_rank,
        arg_max(ts, dur) AS ts,
        MAX(dur) AS dur
    FROM caused
    GROUP BY communicator_id, root_rank
    QUALIFY ROW_NUMBER() OVER (PARTITION BY communicator_id ORDER BY SUM(ns) DESC, root_rank) = 1
),
phase AS (
    SELECT communicator_id, phase, 100.0 * SUM(ns) / SUM(SUM(ns)) OVER (PARTITION BY communicator_id) AS pct
    FROM unexplained
    GROUP BY communicator_id, phase
    QUALIFY ROW_NUMBER() OVER (PARTITION BY communicator_id ORDER BY SUM(ns) DESC, phase) = 1
),
waited AS (
    SELECT communicator_id, rank, SUM(ns) AS ns FROM unexplained GROUP BY communicator_id, rank
),
late_rank AS (
    SELECT thresholds FROM finding_rule WHERE finding = 'late rank'
)
SELECT
    blamed.*, communicator.group_size,
    blamed.ns / (communicator.group_size - 1) AS each_ns,
    blamed.share >= late_rank.thresholds['share']
    AND blamed.share * communicator.group_size >= late_rank.thresholds['equal_shares'] AS is_alone,
    CASE WHEN phase.phase IS NULL THEN '' ELSE format('; {} steps have {:.0f}% of it', phase.phase, phase.pct) END
        AS phase_text,
    SUM(waited.ns) AS all_ns,
    string_agg(printf('%.1f', waited.ns / 1e6), ', ' ORDER BY waited.rank) AS all_ms,
    string_agg(CAST(waited.rank AS VARCHAR), ', ' ORDER BY waited.rank) AS all_ranks,
    string_agg(printf('%.1f', waited.ns / 1e6), ', ' ORDER BY waited.rank)
        FILTER (waited.rank <> blamed.rank) AS other_ms,
    string_agg(CAST(waited.rank AS VARCHAR), ', ' ORDER BY waited.rank)
        FILTER (waited.rank <> blamed.rank) AS other_ranks
FROM blamed
INNER JOIN waited USING (communicator_id)
INNER JOIN communicator USING (communicator_id)
INNER JOIN phase USING (communicator_id)
CROSS JOIN late_rank
WHERE communicator.group_size > 1
GROUP BY ALL
