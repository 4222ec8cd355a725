-- Kernels of LoRA adapters run beside the products of the model.
-- @title   LoRA kernels
-- @group   kernels
-- @most    notable
-- @query   kernels.top
-- @record  Record GPU activities.
-- @source  vLLM runs these kernels for each adapted layer while LoRA is on, 1.4% of a step even if no adapter is active
-- @needs   engine_setting, time_scale, time_unit, wording
-- @empty_unless time_unit
WITH spent AS (
    SELECT
        list({'unit': unit, 'ns': ns} ORDER BY unit) AS claims,
        SUM(ns) AS ns,
        COUNT(DISTINCT number) AS steps,
        arg_max(rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur,
        list_sort(list(DISTINCT symbol))[:3] AS symbols
    FROM time_unit
    WHERE part = 'computing' AND regexp_matches(symbol, 'lora_(shrink|expand)|fused_moe_lora|[sb]gmv')
),
setting AS (
    SELECT
        config ->> '$.lora_config.max_loras' AS max_loras,
        COALESCE(TRY_CAST(config ->> '$.lora_config.specialize_active_lora' AS BOOLEAN), FALSE) AS is_special
    FROM engine_setting
)
SELECT
    spent.ns IS NOT NULL AS is_confirmed,
    CASE WHEN spent.ns IS NULL THEN 'no LoRA kernel ran' END AS reason,
    'LoRA kernels take {saving} of a step' AS headline,
    [
        format(
            '{} take {:.1f}% of the time in which the {} works.', array_to_string(spent.symbols, ', '),
            100 * spent.ns / (time_scale.busy_ns * time_scale.devices * time_scale.steps), wording.device
        ),
        CASE WHEN setting.max_loras IS NOT NULL THEN format('run.json has max_loras {}.', setting.max_loras) END
    ] AS evidence,
    concat_ws(
        ' ',
        CASE WHEN NOT setting.is_special THEN '--specialize-active-lora' END,
        '--max-loras N, with as many adapters as run in one step; without adapters, leave out --enable-lora'
    ) AS remedy,
    'How many adapters are active in a step: what active ones need remains, so the saving is an upper limit.' AS unknowns,
    spent.claims, spent.steps AS samples, spent.rank, spent.ts, spent.dur
FROM spent
CROSS JOIN setting
CROSS JOIN time_scale
CROSS JOIN wording
