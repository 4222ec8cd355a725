-- Prompts begin alike, and without the prefix cache their beginnings are computed again.
-- @title   prefix cache off
-- @group   memory
-- @query   serving.requests
-- @record  Record with traceql capture run, which notes whether the prefix cache is on and what prompts share.
-- @source  vLLM's documentation of automatic prefix caching: keys and values of a beginning are computed once
-- @needs   engine_setting, engine_step, run, scheduler_load, scheduler_step, time_unit, wording
-- @after   slow_host_rank
WITH workload AS (
    SELECT
        MIN(COALESCE(
            TRY_CAST(document ->> '$.workload.shared_prompt_pct' AS DOUBLE),
            -- Prompts of random tokens.
            CASE WHEN json_type(document, '$.workload.seed') IN ('BIGINT', 'UBIGINT') THEN 0 END
        )) AS shared_pct
    FROM run
),
cache AS (
    SELECT 100.0 * SUM(prefix_hits) / NULLIF(SUM(prefix_queried), 0) AS hit_pct FROM scheduler_step
),
-- What a step takes the device beyond a decode step is for its prompts.
prompt_step AS (
    SELECT
        step_id, number, busy_ns,
        GREATEST(0, 1 - COALESCE((SELECT AVG(busy_ns) FROM engine_step WHERE phase = 'decode' AND NOT is_edge), 0) / NULLIF(busy_ns, 0)) AS share
    FROM engine_step
    WHERE phase IN ('prefill', 'mixed') AND NOT is_edge
),
claimed AS (
    SELECT
        list({
            'unit': unit, 'ns': CAST(time_unit.ns * prompt_step.share * workload.shared_pct / 100 AS BIGINT)
        } ORDER BY unit) AS claims,
        COUNT(DISTINCT prompt_step.number) AS steps,
        AVG(prompt_step.busy_ns) AS busy_ns,
        arg_max(time_unit.rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts,
        MAX(longest_ns) AS dur
    FROM time_unit
    INNER JOIN prompt_step USING (step_id)
    CROSS JOIN workload
    WHERE time_unit.part <> 'lost'
)
SELECT
    CASE
        WHEN load.is_program THEN FALSE
        WHEN setting.prefix_caching THEN FALSE
        WHEN workload.shared_pct < 5 THEN FALSE
        WHEN workload.shared_pct IS NOT NULL THEN NOT setting.prefix_caching
    END AS is_confirmed,
    CASE
        WHEN load.is_program THEN 'these are steps of a program, not of an engine that schedules requests'
        WHEN setting.prefix_caching
            THEN concat('the prefix cache is on', format('; it had {:.0f}% of the tokens of prompts that began', cache.hit_pct))
        WHEN workload.shared_pct < 5 THEN format('{:.0f}% of the prompts are beginnings that others share', workload.shared_pct)
        WHEN setting.prefix_caching IS NULL THEN 'no run.json says whether the prefix cache is on; record with traceql capture run'
        WHEN workload.shared_pct IS NULL
            THEN 'the prefix cache is off, and what prompts share is unknown; record with --enable-prefix-caching, and compare'
    END AS reason,
    format('The prefix cache is off, and {:.0f}% of the prompts are shared beginnings', workload.shared_pct) AS headline,
    [
        format('{:.0f}% of the tokens of prompts begin another prompt too.', workload.shared_pct),
        format(
            '{} steps with prompts take the {} {:.1f} ms each; {{saving}} of an average step would not be computed again.',
            claimed.steps, wording.device, claimed.busy_ns / 1e6
        )
    ] AS evidence,
    '--enable-prefix-caching, instead of --no-enable-prefix-caching' AS remedy,
    'How long the KV cache keeps the beginnings.' AS unknowns,
    claimed.claims, claimed.steps AS samples, 'prefill' AS phase, claimed.rank, claimed.ts, claimed.dur,
    CASE WHEN setting.prefix_caching AND cache.hit_pct > 0 THEN format('prefix cache ({:.0f}% hits)', cache.hit_pct) END AS fine
FROM claimed
CROSS JOIN workload
CROSS JOIN cache
CROSS JOIN engine_setting AS setting
CROSS JOIN wording
CROSS JOIN scheduler_load AS load
