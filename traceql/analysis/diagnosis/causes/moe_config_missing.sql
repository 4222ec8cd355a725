-- vLLM has no tuned configuration of its Triton kernel for these experts on this GPU, and says so.
-- @title   no tuned configuration of experts
-- @group   kernels
-- @most    remark
-- @query   kernels.top category='moe'
-- @record  Record with traceql capture run, which keeps vLLM's log.
-- @source  vLLM's fused_moe.py and its message; a tuned file often gains nothing in decode (vllm-project/vllm issues 40542, 52192)
-- @needs   kernel_use, log_message, run
WITH said AS (
    SELECT
        COUNT(*) FILTER (text LIKE '%Using default MoE config%') AS times,
        ANY_VALUE(regexp_extract(text, '([^/ ]+\.json)', 1)) FILTER (text LIKE '%Using default MoE config%') AS file,
        COUNT(*) FILTER (text LIKE '%MoE config%' AND text NOT LIKE '%Using default MoE config%') AS found,
        COUNT(*) AS lines
    FROM log_message
),
expert AS (
    SELECT
        SUM(ns) FILTER (category = 'moe') AS ns,
        SUM(ns) FILTER (regexp_matches(name, 'fused_moe_kernel|fused_batched_moe')) AS triton_ns,
        SUM(ns) AS all_ns
    FROM kernel_use
)
SELECT
    CASE
        WHEN COALESCE(expert.ns, 0) = 0 THEN FALSE
        WHEN COALESCE(expert.triton_ns, 0) = 0 THEN FALSE
        WHEN said.times > 0 THEN TRUE
        WHEN said.lines = 0 THEN NULL
        ELSE FALSE
    END AS is_confirmed,
    CASE
        WHEN COALESCE(expert.ns, 0) = 0 THEN 'no kernel of experts was recorded'
        WHEN COALESCE(expert.triton_ns, 0) = 0 THEN 'the experts do not run in the Triton kernel that such a file is for'
        WHEN said.lines = 0 THEN 'only the log says it: record with traceql capture run'
        WHEN said.found > 0 THEN 'vLLM found a tuned configuration of the experts'
        ELSE 'the log has no such message'
    END AS reason,
    format(
        'vLLM runs experts without a tuned configuration: {:.0f}% of the kernel time', 100 * expert.triton_ns / NULLIF(expert.all_ns, 0)
    ) AS headline,
    [
        'vLLM''s log: Using default MoE config.' || COALESCE(format(' It looked for {}.', NULLIF(said.file, '')), ''),
        format('Its Triton kernel takes {:.1f} ms on all ranks.', expert.triton_ns / 1e6)
    ] AS evidence,
    format(
        'python benchmarks/kernels/benchmark_moe.py --model {} --tune{} --save-dir DIR; then VLLM_TUNED_CONFIG_FOLDER=DIR',
        COALESCE((SELECT model FROM run ORDER BY run LIMIT 1), 'MODEL'),
        COALESCE((SELECT format(' --tp-size {}', tp) FROM run WHERE tp > 1 ORDER BY run LIMIT 1), '')
    ) AS remedy,
    'What a tuned file saves: often nothing in decode. Tune, then compare with traceql diff.' AS unknowns
FROM said
CROSS JOIN expert
