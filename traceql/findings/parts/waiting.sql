-- One row per communicator: the rank that the others waited for most, for how long, and why.
-- @needs  attended, finding_rule, straggler, within_stage
WITH caused AS (
    SELECT within_stage.communicator_id, straggler.rank, straggler.cause, SUM(straggler.waited_ns) AS ns
    FROM straggler
    INNER JOIN within_stage USING (kernel_id)
    -- A rank that was delayed in another communicator is not to blame.
    WHERE straggler.cause <> 'communication'
    GROUP BY ALL
),
blamed AS (
    SELECT
        communicator_id,
        rank,
        SUM(ns) AS ns,
        SUM(ns) / SUM(SUM(ns)) OVER (PARTITION BY communicator_id) AS share,
        arg_max(cause, ns) AS cause,
        100.0 * MAX(ns) / SUM(ns) AS cause_pct
    FROM caused
    GROUP BY communicator_id, rank
    QUALIFY ROW_NUMBER() OVER (PARTITION BY communicator_id ORDER BY SUM(ns) DESC, rank) = 1
),
late_rank AS (
    SELECT thresholds FROM finding_rule WHERE finding = 'late rank'
)
SELECT
    blamed.*,
    blamed.ns / (attended.group_size - 1) AS each_ns,
    blamed.share >= late_rank.thresholds['share']
    AND blamed.share * attended.group_size >= late_rank.thresholds['equal_shares'] AS is_alone,
    SUM(attended.wait_ns) AS all_ns,
    AVG(attended.transfer_ns) AS transfer_ns,
    COUNT(*) AS ranks,
    string_agg(printf('%.1f', attended.wait_ns / 1e6), ', ' ORDER BY attended.rank) AS all_ms,
    string_agg(CAST(attended.rank AS VARCHAR), ', ' ORDER BY attended.rank) AS all_ranks,
    string_agg(printf('%.1f', attended.wait_ns / 1e6), ', ' ORDER BY attended.rank)
        FILTER (attended.rank <> blamed.rank) AS other_ms,
    string_agg(CAST(attended.rank AS VARCHAR), ', ' ORDER BY attended.rank)
        FILTER (attended.rank <> blamed.rank) AS other_ranks
FROM blamed
INNER JOIN attended USING (communicator_id)
CROSS JOIN late_rank
WHERE attended.group_size > 1
GROUP BY ALL
