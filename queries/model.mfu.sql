-- One row per phase: which share of the GPU's arithmetic and of its memory bandwidth the model uses.
--
-- Use it to compare runs, GPUs and engines by one number. MFU is that of PaLM (arXiv 2204.02311,
-- appendix B): useful FLOPs / (time x peak of the data sheet). HFU counts executed FLOPs, padding
-- included (arXiv 2205.05198). MBU is that of Databricks ("LLM inference performance engineering:
-- best practices"): bytes of parameters and KV cache / (time x peak of the memory). The time is the wall
-- time of the GPUs: waiting and idle time count. Decode has a low MFU because it reads all weights
-- for a few tokens; then MBU is the number to watch.
-- @param  rank           BIGINT  = NULL  Only this rank; all ranks by default.
-- @column phase          VARCHAR  Phase of the steps, or all.
-- @column mfu_pct        DOUBLE   Model FLOPs utilization, percent; NULL if FLOPs or peak are unknown.
-- @column hfu_pct        DOUBLE   Hardware FLOPs utilization, percent; NULL if FLOPs or peak are unknown.
-- @column mbu_pct        DOUBLE   Model bandwidth utilization, percent; NULL if bytes or peak are unknown.
-- @column wall_ns        BIGINT   Time of the GPUs that belongs to the phase, summed over ranks, ns.
-- @column step_ns        DOUBLE   wall_ns per step on one rank, ns.
-- @column tokens_s       DOUBLE   Tokens processed or generated per second of step_ns; NULL if unknown.
-- @column gpu_tflops     DOUBLE   Useful FLOPs / wall_ns: 1e12 per second and GPU; NULL if unknown.
-- @column gpu_gbps       DOUBLE   Bytes of parameters and KV cache / wall_ns: 1e9 per second and GPU; NULL if unknown.
-- @column flops          DOUBLE   Useful FLOPs of all ranks; NULL if unknown.
-- @column model_bytes    DOUBLE   Bytes of parameters and KV cache of all ranks; NULL if unknown.
-- @column steps          BIGINT   Number of steps, counted on each rank.
-- @column missing        VARCHAR  What is not counted, so that the percentages are lower bounds; NULL if nothing is.
-- @key    phase mfu_pct hfu_pct mbu_pct step_ns tokens_s gpu_tflops gpu_gbps missing
-- @empty  no step has kernels; traceql check says why
-- @chart  bar x=mfu_pct,mbu_pct y=phase
-- @title  Model utilization: FLOPs (MFU) and memory bandwidth (MBU)
WITH phased AS (
    SELECT
        step_id,
        rank,
        COALESCE(phase, 'unknown') AS phase,
        context_tokens + generation_tokens AS tokens
    FROM step
    WHERE gpu_dur IS NOT NULL AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
),
walled AS (
    SELECT COALESCE(phase, 'unknown') AS phase, SUM(dur) AS wall_ns
    FROM device_part
    WHERE step_id IS NOT NULL AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
    GROUP BY ALL
),
counted AS (
    SELECT phase, COUNT(*) AS steps, SUM(tokens) / COUNT(DISTINCT rank) AS tokens, COUNT(DISTINCT rank) AS ranks
    FROM phased
    GROUP BY phase
),
-- Parts of the model: their cost matters. Sampling and the preparation of inputs have none.
worked AS (
    SELECT
        phased.phase,
        SUM(cost.flops) AS flops,
        SUM(cost.weight_bytes + cost.kv_bytes) AS model_bytes,
        SUM(role_floor.compute_ns) AS compute_ns,
        SUM(role_floor.compute_ns * cost.executed_flops / NULLIF(cost.flops, 0)) AS executed_ns,
        SUM((cost.weight_bytes + cost.kv_bytes) / NULLIF(rank_peak.hbm_gbps, 0)) AS memory_ns,
        string_agg(DISTINCT cost.role || ': ' || cost.missing, '; ' ORDER BY cost.role || ': ' || cost.missing)
        FILTER (cost.missing IS NOT NULL AND cost.role NOT IN ('input_prep', 'sample', 'other')) AS missing
    FROM cost
    INNER JOIN phased USING (step_id)
    INNER JOIN rank_peak ON cost.rank = rank_peak.rank AND rank_peak.kind = 'data sheet'
    INNER JOIN role_floor
        ON cost.step_id = role_floor.step_id
        AND cost.role = role_floor.role
        AND cost.layer IS NOT DISTINCT FROM role_floor.layer
        AND role_floor.kind = 'data sheet'
    GROUP BY phased.phase
),
summed AS (
    SELECT
        walled.phase,
        walled.wall_ns,
        counted.steps,
        counted.tokens,
        counted.ranks,
        worked.flops,
        worked.model_bytes,
        worked.compute_ns,
        worked.executed_ns,
        worked.memory_ns,
        worked.missing
    FROM walled
    INNER JOIN counted USING (phase)
    LEFT JOIN worked USING (phase)
    UNION ALL
    SELECT
        'all',
        SUM(walled.wall_ns),
        SUM(counted.steps),
        SUM(counted.tokens),
        MAX(counted.ranks),
        SUM(worked.flops),
        SUM(worked.model_bytes),
        SUM(worked.compute_ns),
        SUM(worked.executed_ns),
        SUM(worked.memory_ns),
        string_agg(DISTINCT worked.missing, '; ' ORDER BY worked.missing)
    FROM walled
    INNER JOIN counted USING (phase)
    LEFT JOIN worked USING (phase)
    HAVING COUNT(*) > 1
)
SELECT
    phase,
    100 * compute_ns / wall_ns AS mfu_pct,
    100 * executed_ns / wall_ns AS hfu_pct,
    100 * memory_ns / wall_ns AS mbu_pct,
    CAST(wall_ns AS BIGINT) AS wall_ns,
    1.0 * wall_ns / steps AS step_ns,
    1e9 * tokens * ranks / NULLIF(wall_ns, 0) AS tokens_s,
    flops / wall_ns / 1000 AS gpu_tflops,
    model_bytes / wall_ns AS gpu_gbps,
    CAST(flops AS DOUBLE) AS flops,
    CAST(model_bytes AS DOUBLE) AS model_bytes,
    CAST(steps AS BIGINT) AS steps,
    missing
FROM summed
ORDER BY phase = 'all', wall_ns DESC
