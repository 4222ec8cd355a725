-- The experts of one rank get more tokens than those of the others, which wait for it.
-- @title   unequal load of experts
-- @group   kernels
-- @after   late_rank_gpu
-- @query   ep.balance
-- @record  Record and load all ranks of the experts.
-- @source  vLLM's expert load balancing (EPLB)
-- @needs   engine_setting, kernel_use, rank_pace, time_unit, trace
-- @empty_unless time_unit
WITH expert AS (
    SELECT
        kernel_use.rank,
        SUM(kernel_use.ns) AS ns,
        ANY_VALUE(pace.pace) AS pace,
        ANY_VALUE(trace.ep_rank) AS ep_rank
    FROM kernel_use
    LEFT JOIN rank_pace AS pace USING (rank)
    LEFT JOIN trace USING (rank)
    WHERE kernel_use.role IN ('experts_gate_up', 'experts_down')
    GROUP BY kernel_use.rank
),
balance AS (
    SELECT
        COUNT(*) AS ranks,
        arg_max(rank, ns) AS slow_rank,
        MAX(ns) AS most_ns, AVG(ns) AS mean_ns,
        MAX(ns) / NULLIF(AVG(ns), 0) AS ratio,
        arg_max(pace, ns) AS pace,
        NULLIF(COUNT(DISTINCT ep_rank), 0) > 1 AS has_expert_ranks
    FROM expert
),
claim AS (
    SELECT time_unit.unit, time_unit.ns * (1 - 1 / balance.ratio) AS ns
    FROM time_unit
    INNER JOIN balance ON time_unit.rank = balance.slow_rank
    WHERE time_unit.part = 'computing' AND time_unit.role IN ('experts_gate_up', 'experts_down')
    UNION ALL
    SELECT time_unit.unit, time_unit.ns
    FROM time_unit
    INNER JOIN balance ON time_unit.root_rank = balance.slow_rank AND time_unit.rank <> balance.slow_rank
    WHERE time_unit.is_waiting AND time_unit.cause = 'kernel'
),
claimed AS (
    SELECT
        list({'unit': claim.unit, 'ns': CAST(claim.ns AS BIGINT)} ORDER BY claim.unit, claim.ns) AS claims,
        COUNT(DISTINCT time_unit.number) AS steps,
        arg_max(time_unit.rank, time_unit.longest_ns) AS rank,
        arg_max(time_unit.longest_ts, time_unit.longest_ns) AS ts,
        MAX(time_unit.longest_ns) AS dur
    FROM claim
    INNER JOIN time_unit ON claim.unit = time_unit.unit
),
judged AS (
    SELECT
        balance.*,
        balance.ratio > 1.1 AS is_unequal,
        COALESCE(balance.pace, 1) < 1.03 AS are_others_equal,
        COALESCE(setting.ep, balance.has_expert_ranks) AS is_spread
    FROM balance
    CROSS JOIN engine_setting AS setting
)
SELECT
    CASE
        WHEN judged.ranks = 0 THEN FALSE
        WHEN judged.is_spread IS FALSE THEN FALSE
        WHEN judged.ranks = 1 THEN NULL
        WHEN NOT judged.is_unequal THEN FALSE
        WHEN judged.is_spread IS NULL OR NOT judged.are_others_equal THEN NULL
        ELSE TRUE
    END AS is_confirmed,
    CASE
        WHEN judged.ranks = 0 THEN 'no kernel of experts is known'
        WHEN judged.is_spread IS FALSE THEN 'the experts are not spread over the ranks'
        WHEN judged.ranks = 1 THEN 'only one rank with experts was loaded'
        WHEN NOT judged.is_unequal THEN format('the rank with most work computes its experts for {:.0f}% longer than the mean rank', 100 * (judged.ratio - 1))
        WHEN NOT judged.are_others_equal
            THEN format('experts of rank {} take {:.0f}% longer than on the mean rank, but so do its other kernels', judged.slow_rank, 100 * (judged.ratio - 1))
        ELSE 'whether experts are spread over the ranks is not known: no run.json'
    END AS reason,
    format('Experts of rank {} compute for {:.0f}% longer than on the mean rank', judged.slow_rank, 100 * (judged.ratio - 1)) AS headline,
    [
        format(
            'Rank {} computes its experts for {:.1f} ms, the mean of {} ranks is {:.1f} ms.',
            judged.slow_rank, judged.most_ns / 1e6, judged.ranks, judged.mean_ns / 1e6
        ),
        CASE WHEN judged.pace IS NOT NULL
            THEN format('Its other kernels take as long as elsewhere ({:+.1f}%).', 100 * (judged.pace - 1))
        END
    ] AS evidence,
    format('--enable-eplb --eplb-config ''{{"num_redundant_experts":{}}}''', judged.ranks) AS remedy,
    'Whether the load stays as unequal: it changes with the requests.' AS unknowns,
    claimed.claims, claimed.steps AS samples, claimed.rank, claimed.ts, claimed.dur,
    CASE
        WHEN judged.ranks > 1 AND judged.is_spread AND NOT judged.is_unequal
            THEN format('load of the experts (within {:.0f}%)', GREATEST(1, 100 * (judged.ratio - 1)))
    END AS fine
FROM judged
CROSS JOIN claimed
