-- Devices wait before sampling, in steps with requests whose output must follow a grammar.
-- @title   masks of structured outputs
-- @group   host
-- @query   idle.gaps
-- @record  Record GPU activities in steps of both kinds, with and without structured outputs.
-- @source  vLLM 0.25: masks of grammars are made on the host, and copied before sampling
-- @needs   engine_setting, engine_step, kernel, lost_interval, lost_pct, time_scale, time_unit, wording
WITH mask AS (
    SELECT id, step_id
    FROM kernel
    WHERE kind = 'kernel' AND regexp_matches(name, '(?i)bitmask')
),
-- Idle time that a mask, or the copy of it, ended.
wait AS (
    SELECT lost_interval.root_step_id AS step_id, SUM(lost_interval.dur) AS ns, MAX(lost_interval.dur) AS longest_ns,
        arg_max(lost_interval.rank, lost_interval.dur) AS rank, arg_max(lost_interval.ts, lost_interval.dur) AS ts
    FROM lost_interval
    INNER JOIN engine_step ON lost_interval.root_step_id = engine_step.step_id
    WHERE
        lost_interval.part = 'idle' AND lost_interval.cause IN ('host', 'sync') AND NOT engine_step.is_edge
        AND lost_interval.next_kernel_id IN (SELECT id FROM mask)
    GROUP BY lost_interval.root_step_id
),
lost AS (
    SELECT unit, root_step_id, ns, SUM(ns) FILTER (NOT is_waiting) OVER (PARTITION BY root_step_id) AS own_ns
    FROM time_unit
    WHERE part = 'lost' AND cause IN ('host', 'sync') AND is_between IS NOT TRUE
),
claimed AS (
    SELECT
        list({'unit': lost.unit, 'ns': CAST(lost.ns * LEAST(1, wait.ns / lost.own_ns) AS BIGINT)} ORDER BY lost.unit) AS claims,
        SUM(lost.ns * LEAST(1, wait.ns / lost.own_ns)) AS ns
    FROM wait
    INNER JOIN lost ON wait.step_id = lost.root_step_id
    WHERE lost.own_ns > 0
),
counted AS (
    SELECT
        (SELECT COUNT(*) FROM mask) AS masks,
        (SELECT COUNT(*) FROM engine_step) AS all_steps,
        (SELECT COUNT(DISTINCT number) FROM engine_step INNER JOIN wait USING (step_id)) AS steps,
        (SELECT AVG(ns) FROM wait) AS ns,
        (SELECT arg_max(rank, longest_ns) FROM wait) AS rank,
        (SELECT arg_max(ts, longest_ns) FROM wait) AS ts,
        (SELECT MAX(longest_ns) FROM wait) AS dur
),
measured AS (
    SELECT lost_pct(claimed.ns, time_scale) AS pct
    FROM time_scale
    CROSS JOIN claimed
),
setting AS (
    SELECT vllm_version, config ->> '$.structured_outputs_config.backend' AS backend FROM engine_setting
)
SELECT
    CASE
        WHEN counted.all_steps = 0 THEN NULL
        ELSE COALESCE(counted.steps >= 10 AND measured.pct >= 1, FALSE)
    END AS is_confirmed,
    CASE
        WHEN counted.all_steps = 0 THEN 'no step was recorded'
        WHEN counted.masks = 0 THEN 'no kernel applies the mask of a grammar'
        WHEN counted.steps < 10 THEN format('fewer than 10 steps that wait for a mask prove nothing: {}', counted.steps)
        ELSE format('waits for masks of grammars cost {:.1f}% of a step', COALESCE(measured.pct, 0))
    END AS reason,
    format('{} steps wait {:.2f} ms for masks of structured outputs', counted.steps, counted.ns / 1e6) AS headline,
    [
        format('A {} is idle before the kernel that applies the mask of the grammars.', wording.device),
        'The host makes these masks after the step before, for each request with a schema.'
    ] AS evidence,
    CASE
        WHEN setting.backend = 'xgrammar' THEN 'A newer vLLM: 0.24 and 0.25 copy masks slowly (vllm-project/vllm#49013)'
        ELSE '--structured-outputs-config.backend xgrammar'
    END AS remedy,
    'How long steps without structured outputs take: record some.' AS unknowns,
    claimed.claims, counted.steps AS samples, counted.rank, counted.ts, counted.dur
FROM counted
CROSS JOIN claimed
LEFT JOIN measured ON TRUE
CROSS JOIN setting
CROSS JOIN wording
