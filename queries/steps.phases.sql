-- One row per rank and phase: how long its steps take and what they achieve.
--
-- A step's duration here is gpu_dur: from its first kernel's start to its last kernel's end.
-- tokens_per_s divides by the sum of these, so host time between steps does not count.
-- @param  rank          BIGINT  = NULL  This rank only; all where NULL.
-- @column rank          BIGINT   Rank.
-- @column phase         VARCHAR  prefill, decode, mixed or idle; NULL where the trace does not say.
-- @column steps         BIGINT   How many.
-- @column median_ns     DOUBLE   Median duration on the GPU, ns.
-- @column p99_ns        DOUBLE   99th percentile of it, ns.
-- @column total_ns      BIGINT   Summed duration on the GPU, ns.
-- @column tokens        BIGINT   Prompt tokens processed and tokens generated.
-- @column tokens_per_s  DOUBLE   tokens per second of total.
-- @chart  bar x=median_ns y=phase group=rank
-- @title  Median step, by phase
SELECT
    rank,
    phase,
    COUNT(*) AS steps,
    quantile_cont(gpu_dur, 0.5) AS median_ns,
    quantile_cont(gpu_dur, 0.99) AS p99_ns,
    CAST(SUM(gpu_dur) AS BIGINT) AS total_ns,
    CAST(SUM(context_tokens + generation_tokens) AS BIGINT) AS tokens,
    1e9 * SUM(context_tokens + generation_tokens) / NULLIF(SUM(gpu_dur), 0) AS tokens_per_s
FROM step
WHERE $rank::BIGINT IS NULL OR rank = $rank::BIGINT
GROUP BY rank, phase
ORDER BY rank, total_ns DESC NULLS LAST, phase
