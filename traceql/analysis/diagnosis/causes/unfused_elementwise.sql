-- Norms, activations and other small kernels are not fused, because the model is not compiled.
-- @title   kernels not fused
-- @group   kernels
-- @after   cuda_graph_sizes
-- @unless  cuda_graphs_off
-- @query   kernels.by_category
-- @record  Record with traceql capture run, which notes the compilation mode.
-- @source  a dense model of 12 layers: small kernels of a step take 244 us not compiled, 158 us compiled
-- @needs   engine_setting, kernel_use, time_unit, wording
WITH used AS (
    SELECT
        -- vLLM compiles a few functions outside the model in any mode.
        COALESCE(SUM(ns) FILTER (
            category IN ('norm', 'activation') AND regexp_matches(name, '^triton_(poi|red|per)_')
        ) / SUM(ns) FILTER (category IN ('norm', 'activation')), 0) AS compiled_share,
        SUM(ns) FILTER (category IN ('norm', 'rope', 'activation', 'elementwise') AND role IS DISTINCT FROM 'sample') AS small_ns,
        SUM(kernels) FILTER (category IN ('norm', 'rope', 'activation', 'elementwise') AND role IS DISTINCT FROM 'sample') AS kernels,
        SUM(ns) AS all_ns
    FROM kernel_use
),
-- Compiled, small kernels of a step took 158 us instead of 244.
claimed AS (
    SELECT list({'unit': unit, 'ns': CAST(ns * (1 - 158 / 244) AS BIGINT)} ORDER BY unit) AS claims
    FROM time_unit
    WHERE
        part = 'computing' AND category IN ('norm', 'rope', 'activation', 'elementwise')
        AND role IS NOT NULL AND role <> 'sample'
),
judged AS (
    SELECT
        used.*,
        setting.compilation_mode,
        setting.enforce_eager OR setting.cudagraph_mode = 'NONE' AS is_off,
        setting.has_config
    FROM used
    CROSS JOIN engine_setting AS setting
)
SELECT
    CASE
        WHEN judged.compiled_share > 0.3 OR judged.is_off THEN FALSE
        WHEN NOT judged.has_config OR judged.compilation_mode IS NULL OR judged.small_ns IS NULL THEN NULL
        WHEN wording.device = 'NPU' THEN NULL
        ELSE judged.compilation_mode = 0
    END AS is_confirmed,
    CASE
        WHEN judged.compiled_share > 0.3 THEN 'norms and activations are fused by Inductor'
        WHEN judged.is_off THEN 'graphs are off too, and that cause has the same remedy'
        WHEN judged.small_ns IS NULL THEN 'no small kernel was recorded'
        WHEN NOT judged.has_config OR judged.compilation_mode IS NULL THEN 'no run.json has the compilation mode'
        WHEN wording.device = 'NPU' THEN 'an NPU fuses kernels by other means than torch.compile'
        ELSE format('run.json has compilation mode {}', judged.compilation_mode)
    END AS reason,
    format('The model is not compiled: {:.0f}% of the kernel time is small kernels', 100 * judged.small_ns / NULLIF(judged.all_ns, 0)) AS headline,
    [
        'In run.json, compilation_config.mode is 0; norms and activations run as kernels of their own.',
        format('{:,} norms, activations and elementwise kernels take {:.1f} ms on all ranks.', judged.kernels, judged.small_ns / 1e6)
    ] AS evidence,
    'vllm serve ... without -cc.mode=0 (the default of -O2 is mode 3)' AS remedy,
    'What fusing saves for this model: the estimate is from a dense model, whose small kernels became 35% shorter.' AS unknowns,
    claimed.claims, judged.kernels AS samples
FROM judged
CROSS JOIN claimed
CROSS JOIN wording
