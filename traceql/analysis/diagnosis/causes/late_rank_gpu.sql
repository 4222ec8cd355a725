-- All kernels of one rank take longer than those of the others, which wait for it.
-- @title   one slow GPU
-- @group   hardware
-- @unless  gpu_shared, gpu_throttled
-- @query   layers.roles rank=slow_rank
-- @record  Record and load all ranks.
-- @source  medians of equal kernels differ by less than 2% between the ranks of ten healthy recordings
-- @needs   rank_pace, time_unit, trace, wording
-- @empty_unless time_unit
WITH compared AS (
    SELECT
        COUNT(pace) AS ranks,
        arg_max(rank, pace) AS slow_rank,
        MAX(pace) AS pace,
        list_sort(list(pace))[-2] AS next_pace,
        arg_max(slower_share, pace) AS slower_share,
        arg_max(kinds, pace) AS kinds,
        arg_max(tokens, pace) AS tokens,
        AVG(tokens) AS mean_tokens
    FROM rank_pace
),
claim AS (
    SELECT time_unit.unit, time_unit.ns * (1 - 1 / compared.pace) AS ns
    FROM time_unit
    INNER JOIN compared ON time_unit.rank = compared.slow_rank
    WHERE time_unit.part = 'computing'
    UNION ALL
    SELECT time_unit.unit, time_unit.ns
    FROM time_unit
    INNER JOIN compared ON time_unit.root_rank = compared.slow_rank AND time_unit.rank <> compared.slow_rank
    WHERE time_unit.is_waiting AND time_unit.cause = 'kernel'
),
claimed AS (
    SELECT
        list({'unit': claim.unit, 'ns': CAST(claim.ns AS BIGINT)} ORDER BY claim.unit, claim.ns) AS claims,
        COALESCE(SUM(time_unit.ns) FILTER (time_unit.is_waiting), 0) AS waiting_ns,
        COUNT(DISTINCT time_unit.number) AS steps,
        arg_max(time_unit.rank, time_unit.longest_ns) FILTER (time_unit.is_waiting) AS rank,
        arg_max(time_unit.longest_ts, time_unit.longest_ns) FILTER (time_unit.is_waiting) AS ts,
        MAX(time_unit.longest_ns) FILTER (time_unit.is_waiting) AS dur
    FROM claim
    INNER JOIN time_unit ON claim.unit = time_unit.unit
),
loaded AS (
    SELECT COUNT(rank) AS ranks, MAX(world_size) AS world_size FROM trace
),
judged AS (
    SELECT
        *,
        tokens > 1.05 * mean_tokens AS has_more_tokens,
        -- All others are equal, and nearly all of its kernels are longer.
        pace > 1.05 AND slower_share > 0.8 AND (ranks = 2 OR next_pace < 1 + (pace - 1) / 2) AS is_slow
    FROM compared
)
SELECT
    CASE
        WHEN judged.ranks < 2 THEN CASE WHEN loaded.world_size = 1 THEN FALSE END
        WHEN judged.is_slow AND judged.has_more_tokens THEN FALSE
        ELSE judged.is_slow
    END AS is_confirmed,
    CASE
        WHEN judged.ranks < 2 AND loaded.world_size = 1 THEN 'the run has one rank'
        WHEN judged.ranks < 2 AND loaded.ranks < 2 THEN 'only one rank was loaded'
        WHEN judged.ranks < 2 THEN 'the ranks have no equal kernels with a known role'
        WHEN judged.is_slow AND judged.has_more_tokens
            THEN format('rank {} processes {:.0f} tokens a step, the mean rank {:.0f}', judged.slow_rank, judged.tokens, judged.mean_tokens)
        ELSE format('equal kernels take at most {:.1f}% longer on one rank than on the others', GREATEST(0, 100 * (judged.pace - 1)))
    END AS reason,
    format('All kernels of rank {} take {:.0f}% longer than on the other ranks', judged.slow_rank, 100 * (judged.pace - 1)) AS headline,
    [
        format(
            'Of {} kinds of kernels, those with {:.0f}% of the time are longer than on the other ranks, by their medians.',
            judged.kinds, 100 * judged.slower_share
        ),
        CASE WHEN claimed.waiting_ns > 0
            THEN format('The other ranks wait {:.1f} ms for it, as recorded.', claimed.waiting_ns / 1e6)
        END
    ] AS evidence,
    format('dcgmi diag -r 3 on the {} of rank {}; or swap it for another one (CUDA_VISIBLE_DEVICES)', wording.device, judged.slow_rank) AS remedy,
    'Why it is slower: compare clocks, memory errors and the slot (nvidia-smi -q).' AS unknowns,
    claimed.claims, claimed.steps AS samples, judged.slow_rank, claimed.rank, claimed.ts, claimed.dur,
    CASE
        WHEN judged.ranks > 1 AND judged.pace < 1.03
            THEN format('equal {}s (kernels within {:.1f}%)', wording.device, GREATEST(0.1, 100 * (judged.pace - 1)))
    END AS fine
FROM judged
CROSS JOIN claimed
CROSS JOIN loaded
CROSS JOIN wording
