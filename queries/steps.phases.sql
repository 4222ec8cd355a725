-- One row per rank (or device of a rank with several) and phase: how long the steps take, and their token throughput.
--
-- Use it to compare prefill and decode, and the ranks. The duration of a step is gpu_dur: from the
-- start of its first kernel, or the end of the step before if that is later, to the end of its last one. tokens_per_s divides by the sum of these
-- durations, so host time between steps does not count.
-- @param  rank          BIGINT  = NULL  Only this rank; all ranks by default.
-- @column rank          BIGINT   Rank.
-- @column device        BIGINT   Number of the device on its machine; NULL if the rank has only one.
-- @column phase         VARCHAR  prefill, decode, mixed or idle; NULL if unknown.
-- @column steps         BIGINT   Number of steps.
-- @column median_ns     DOUBLE   Duration of a step on the GPU, median, ns.
-- @column p99_ns        DOUBLE   Duration of a step on the GPU, 99th percentile, ns.
-- @column total_ns      BIGINT   Total duration of the steps on the GPU, ns.
-- @column tokens        BIGINT   Prompt tokens processed plus tokens generated.
-- @column tokens_per_s  DOUBLE   tokens per second of total_ns.
-- @key    rank device phase steps median_ns p99_ns total_ns tokens tokens_per_s
-- @empty  the trace has no steps
-- @chart  bar x=median_ns y=phase group=rank
-- @title  Median step duration by phase
SELECT
    rank,
    device_if_several(rank, device) AS device,
    phase,
    COUNT(*) AS steps,
    quantile_cont(gpu_dur, 0.5) AS median_ns,
    quantile_cont(gpu_dur, 0.99) AS p99_ns,
    CAST(SUM(gpu_dur) AS BIGINT) AS total_ns,
    CAST(SUM(context_tokens + generation_tokens) AS BIGINT) AS tokens,
    1e9 * SUM(context_tokens + generation_tokens) / NULLIF(SUM(gpu_dur), 0) AS tokens_per_s
FROM step
WHERE $rank::BIGINT IS NULL OR rank = $rank::BIGINT
GROUP BY rank, step.device, phase
ORDER BY rank, step.device, total_ns DESC NULLS LAST, phase
