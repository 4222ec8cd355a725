-- Choosing tokens sorts or normalizes the whole vocabulary, which takes a part of each step.
-- @title   costly sampling
-- @group   kernels
-- @query   kernels.top category='sampling'
-- @record  Record steps that end in sampling.
-- @source  vLLM's sampler: the top-k and top-p of PyTorch sort the vocabulary, FlashInfer's do not (vllm-project/vllm issues 11394, 40376)
-- @needs   engine_setting, kernel_use, log_message, step, time_unit
WITH sampling AS (
    SELECT
        *,
        regexp_matches(name, '(?i)sort|softmax|scan_innermost|cumsum|top_?[kp]|TopK|min_p|multinomial|logprob|_ranks_kernel') AS is_costly,
        regexp_matches(name, '(?i)sort') AS is_sort,
        regexp_matches(name, '(?i)logprob|log_?softmax|_ranks_kernel') AS is_logprob
    FROM kernel_use
    WHERE role = 'sample'
),
summed AS (
    SELECT
        COALESCE(SUM(ns), 0) AS ns,
        COALESCE(SUM(ns) FILTER (is_costly), 0) AS costly_ns,
        COALESCE(SUM(kernels) FILTER (is_costly), 0) AS kernels,
        COALESCE(SUM(ns) FILTER (is_sort), 0) AS sort_ns,
        COALESCE(SUM(ns) FILTER (is_logprob), 0) AS logprob_ns,
        arg_max(name, ns) FILTER (is_costly) AS name,
        (SELECT SUM(ns) FROM kernel_use) AS all_ns
    FROM sampling
),
in_place AS (
    SELECT rank, phase, category, symbol, SUM(ns) FILTER (is_costly) / SUM(ns) AS share
    FROM sampling
    GROUP BY rank, phase, category, symbol
),
claimed AS (
    SELECT
        list({'unit': time_unit.unit, 'ns': CAST(time_unit.ns * in_place.share AS BIGINT)} ORDER BY time_unit.unit) AS claims,
        COUNT(DISTINCT time_unit.number) AS steps,
        arg_max(time_unit.rank, time_unit.longest_ns) AS rank,
        arg_max(time_unit.longest_ts, time_unit.longest_ns) AS ts,
        MAX(time_unit.longest_ns) AS dur
    FROM time_unit
    LEFT JOIN step ON time_unit.step_id = step.step_id
    INNER JOIN in_place
        ON
            time_unit.rank = in_place.rank AND time_unit.category = in_place.category
            AND time_unit.symbol = in_place.symbol AND step.phase IS NOT DISTINCT FROM in_place.phase
    WHERE time_unit.part = 'computing' AND time_unit.role = 'sample' AND in_place.share > 0
),
said AS (
    SELECT COUNT(*) FILTER (text LIKE '%sampling disabled via VLLM_USE_FLASHINFER_SAMPLER=0%') > 0 AS is_off FROM log_message
),
judged AS (
    SELECT
        summed.*,
        summed.costly_ns / NULLIF(summed.all_ns, 0) AS share,
        said.is_off OR COALESCE(setting.environment ->> '$.VLLM_USE_FLASHINFER_SAMPLER' = '0', FALSE) AS is_off
    FROM summed
    CROSS JOIN said
    CROSS JOIN engine_setting AS setting
)
SELECT
    CASE
        WHEN judged.ns = 0 THEN NULL
        ELSE judged.share >= 0.02
    END AS is_confirmed,
    CASE
        WHEN judged.ns = 0 THEN 'no kernel is known to sample'
        WHEN judged.costly_ns = 0 THEN format('sampling takes {:.1f}% of the kernel time, and nothing sorts the vocabulary', 100 * judged.ns / judged.all_ns)
        ELSE format('sorting and normalizing the vocabulary takes {:.1f}% of the kernel time', 100 * judged.share)
    END AS reason,
    format('Sampling over the vocabulary takes {:.0f}% of the kernel time', 100 * judged.share) AS headline,
    [
        format(
            '{:,} kernels, such as {}, take {:.1f} ms on all ranks; the rest of sampling takes {:.1f} ms.',
            judged.kernels, judged.name[:60], judged.costly_ns / 1e6, (judged.ns - judged.costly_ns) / 1e6
        ),
        CASE WHEN judged.is_off THEN 'FlashInfer''s sampler is off (VLLM_USE_FLASHINFER_SAMPLER=0).' END,
        CASE WHEN judged.logprob_ns > 0 THEN format('Of it, {:.1f} ms is for logprobs.', judged.logprob_ns / 1e6) END
    ] AS evidence,
    CASE
        WHEN judged.is_off AND judged.logprob_ns < judged.costly_ns / 2 THEN 'unset VLLM_USE_FLASHINFER_SAMPLER'
        WHEN judged.logprob_ns >= judged.costly_ns / 2 THEN 'Requests without logprobs, or with fewer ("logprobs": 1)'
        ELSE 'Requests without top_p and top_k where the answer allows it ("top_p": 1, "top_k": 0)'
    END AS remedy,
    'What these requests ask for (top_k, top_p, logprobs): not recorded. The saving is that of greedy sampling.' AS unknowns,
    claimed.claims, claimed.steps AS samples, claimed.rank, claimed.ts, claimed.dur,
    CASE
        WHEN judged.ns > 0 AND judged.share < 0.02 AND judged.ns < 0.05 * judged.all_ns
            THEN format('sampling ({:.1f}% of the kernel time)', 100 * judged.ns / judged.all_ns)
    END AS fine
FROM judged
CROSS JOIN claimed
