-- One row per phase: which share of the GPU's arithmetic and of its memory bandwidth the model uses.
--
-- Use it to compare runs, GPUs and engines by one number. MFU is that of PaLM (arXiv 2204.02311,
-- appendix B): useful FLOPs / (time x peak of the data sheet). HFU counts executed FLOPs, padding
-- included (arXiv 2205.05198). MBU is that of Databricks ("LLM inference performance engineering:
-- best practices"): bytes of parameters and KV cache / (time x peak of the memory). The time is the wall
-- time of the GPUs: waiting and idle time count. Decode has a low MFU because it reads all weights
-- for a few tokens; then MBU is the number to watch.
-- @param  rank           BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  peaks          VARCHAR = 'data sheet'  Peaks that the shares are of: those of the data sheet, or measured ones (peaks.json).
-- @values peaks          'data sheet' measured
-- @column phase          VARCHAR  Phase of the steps, or all.
-- @column mfu_pct        DOUBLE   Model FLOPs utilization, percent; NULL if FLOPs or peak are unknown.
-- @column hfu_pct        DOUBLE   Hardware FLOPs utilization, percent; NULL if FLOPs or peak are unknown.
-- @column mbu_pct        DOUBLE   Model bandwidth utilization, percent; NULL if bytes or peak are unknown.
-- @column wall_ns        BIGINT   Time of the GPUs that belongs to the phase, summed over them, ns.
-- @column step_ns        DOUBLE   wall_ns per step on one GPU, ns.
-- @column tokens_s       DOUBLE   Tokens processed or generated per second of step_ns; NULL if unknown.
-- @column gpu_tflops     DOUBLE   Useful FLOPs / wall_ns: 1e12 per second and GPU; NULL if unknown.
-- @column gpu_gbps       DOUBLE   Bytes of parameters and KV cache / wall_ns: 1e9 per second and GPU; NULL if unknown.
-- @column flops          DOUBLE   Useful FLOPs of all ranks; NULL if unknown.
-- @column model_bytes    DOUBLE   Bytes of parameters and KV cache of all ranks; NULL if unknown.
-- @column steps          BIGINT   Number of steps, counted on each GPU.
-- @column missing        VARCHAR  What is unknown, and the parts of the model it is unknown for: these are not counted, so that percentages are lower bounds, or NULL if nothing is left. NULL if all is known.
-- @key    phase mfu_pct hfu_pct mbu_pct step_ns tokens_s gpu_tflops gpu_gbps missing
-- @empty  no step has kernels; traceql check says why
-- @chart  bar x=mfu_pct,mbu_pct y=phase
-- @title  Model utilization: FLOPs (MFU) and memory bandwidth (MBU)
WITH phased AS (
    SELECT
        step_id, rank, device,
        COALESCE(phase, 'unknown') AS phase,
        context_tokens + generation_tokens AS tokens
    FROM step
    WHERE gpu_dur IS NOT NULL AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
),
walled AS (
    SELECT COALESCE(phase, 'unknown') AS phase, SUM(dur) AS wall_ns
    FROM device_timeline
    WHERE step_id IS NOT NULL AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
    GROUP BY ALL
),
counted AS (
    SELECT phase, COUNT(*) AS steps, COUNT(DISTINCT [rank, device]) AS devices, SUM(tokens) / devices AS tokens
    FROM phased
    GROUP BY phase
),
-- A part of the model takes at least these times; NULL if its work or the peak for it is unknown.
rated AS (
    SELECT
        phased.phase, cost.role, cost.dur_ns, cost.flops,
        cost.weight_bytes + cost.kv_bytes AS model_bytes,
        CASE WHEN cost.flops = 0 THEN 0 ELSE cost.flops / (peak.tflops * 1000) END AS compute_ns,
        CASE WHEN cost.executed_flops = 0 THEN 0 ELSE cost.executed_flops / (peak.tflops * 1000) END AS executed_ns,
        CASE
            WHEN cost.weight_bytes + cost.kv_bytes = 0 THEN 0
            ELSE (cost.weight_bytes + cost.kv_bytes) / NULLIF(rank_peak.hbm_gbps, 0)
        END AS memory_ns,
        COALESCE(cost.dtype, 'its type of numbers') AS dtype,
        trace.device_name IS NULL AS is_unnamed,
        -- Without the size of a buffer, all that MFU and MBU count is known.
        CASE WHEN cost.flops IS NULL OR cost.weight_bytes + cost.kv_bytes IS NULL THEN cost.missing END AS missing
    FROM cost
    INNER JOIN phased USING (step_id)
    INNER JOIN trace ON cost.rank = trace.rank
    LEFT JOIN rank_peak ON cost.rank = rank_peak.rank AND rank_peak.kind = $peaks::VARCHAR
    LEFT JOIN peak
        ON trace.device_name = peak.device_name
        AND cost.dtype = peak.dtype
        AND peak.kind = $peaks::VARCHAR
),
worked AS (
    SELECT
        COALESCE(phase, 'all') AS phase,
        SUM(flops) AS flops,
        SUM(model_bytes) AS model_bytes,
        SUM(compute_ns ORDER BY compute_ns) AS compute_ns,
        SUM(executed_ns ORDER BY executed_ns) AS executed_ns,
        SUM(memory_ns ORDER BY memory_ns) AS memory_ns
    FROM rated
    GROUP BY GROUPING SETS ((phase), ())
),
-- Of parts of the model alone: sampling and the preparation of inputs have no cost.
unknown AS (
    SELECT
        phase, role, dur_ns,
        UNNEST(list_distinct([
            missing,
            CASE
                WHEN model_bytes IS NULL OR memory_ns IS NOT NULL THEN NULL
                WHEN is_unnamed THEN 'name of the GPU in the trace'
                ELSE 'peak of the memory'
            END,
            CASE
                WHEN flops IS NULL OR compute_ns + executed_ns IS NOT NULL THEN NULL
                WHEN is_unnamed THEN 'name of the GPU in the trace'
                ELSE format('peak for {}', dtype)
            END
        ])) AS what
    FROM rated
    WHERE role NOT IN ('input_prep', 'sample', 'other')
),
unknown_part AS (
    SELECT COALESCE(phase, 'all') AS phase, what, role, SUM(dur_ns) AS ns
    FROM unknown
    GROUP BY GROUPING SETS ((phase, what, role), (what, role))
),
listed AS (
    SELECT phase, what, string_agg(role, ', ' ORDER BY ns DESC, role) AS roles, SUM(ns) AS ns
    FROM unknown_part
    GROUP BY phase, what
),
unmodelled_work AS (
    SELECT phase, string_agg(format('{}: {}', what, roles), '; ' ORDER BY ns DESC, what) AS missing
    FROM listed
    GROUP BY phase
),
timed AS (
    SELECT walled.phase, walled.wall_ns, counted.steps, counted.tokens, counted.devices
    FROM walled
    INNER JOIN counted USING (phase)
    UNION ALL
    SELECT 'all', SUM(walled.wall_ns), SUM(counted.steps), SUM(counted.tokens), MAX(counted.devices)
    FROM walled
    INNER JOIN counted USING (phase)
    HAVING COUNT(*) > 1
),
-- Parts without work say nothing about those that are unknown.
summed AS (
    SELECT
        timed.*, unmodelled_work.missing,
        CASE WHEN worked.flops > 0 OR unmodelled_work.missing IS NULL THEN worked.flops END AS flops,
        CASE WHEN worked.model_bytes > 0 OR unmodelled_work.missing IS NULL THEN worked.model_bytes END AS model_bytes,
        CASE WHEN worked.compute_ns > 0 OR unmodelled_work.missing IS NULL THEN worked.compute_ns END AS compute_ns,
        CASE WHEN worked.executed_ns > 0 OR unmodelled_work.missing IS NULL THEN worked.executed_ns END AS executed_ns,
        CASE WHEN worked.memory_ns > 0 OR unmodelled_work.missing IS NULL THEN worked.memory_ns END AS memory_ns
    FROM timed
    LEFT JOIN worked USING (phase)
    LEFT JOIN unmodelled_work USING (phase)
)
SELECT
    phase,
    100 * compute_ns / wall_ns AS mfu_pct,
    100 * executed_ns / wall_ns AS hfu_pct,
    100 * memory_ns / wall_ns AS mbu_pct,
    CAST(wall_ns AS BIGINT) AS wall_ns,
    1.0 * wall_ns / steps AS step_ns,
    1e9 * tokens * devices / NULLIF(wall_ns, 0) AS tokens_s,
    flops / wall_ns / 1000 AS gpu_tflops,
    model_bytes / wall_ns AS gpu_gbps,
    CAST(flops AS DOUBLE) AS flops,
    CAST(model_bytes AS DOUBLE) AS model_bytes,
    CAST(steps AS BIGINT) AS steps,
    missing
FROM summed
ORDER BY phase = 'all', wall_ns DESC
