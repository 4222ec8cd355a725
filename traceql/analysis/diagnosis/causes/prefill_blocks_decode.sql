-- Requests that generate wait for steps with long prompts, which the GPU takes long to compute.
-- @title   prompts delay decoding
-- @group   scheduling
-- @most    notable
-- @unless  small_prefill_chunks
-- @query   serving.latency
-- @record  Record with traceql capture run, which measures the latencies between tokens.
-- @source  vLLM's documentation of chunked prefill: a step with a chunk delays all requests that generate
-- @needs   engine_setting, engine_step, request, time_scale, wording
WITH interval_ns AS (
    SELECT UNNEST(itl_ns) AS ns
    FROM request
    WHERE profiled = (SELECT BOOL_AND(profiled) FROM request WHERE itl_ns IS NOT NULL)
),
latency AS (
    SELECT COUNT(*) AS intervals, MEDIAN(ns) AS typical_ns, quantile_cont(ns, 0.99) AS worst_ns FROM interval_ns
),
timed AS (
    SELECT
        number, phase, context_tokens, engine_step.busy_ns,
        engine_step.busy_ns + (span_ns - engine_step.busy_ns) * COALESCE(time_scale.scale, 1) AS ns
    FROM engine_step
    CROSS JOIN time_scale
    WHERE NOT is_edge AND (phase = 'decode' OR (phase = 'mixed' AND generation_requests > 0))
),
compared AS (
    SELECT
        COUNT(DISTINCT number) FILTER (phase = 'mixed') AS steps,
        AVG(ns) FILTER (phase = 'mixed') AS mixed_ns,
        AVG(ns) FILTER (phase = 'decode') AS decode_ns,
        SUM(busy_ns) FILTER (phase = 'mixed') / NULLIF(SUM(ns) FILTER (phase = 'mixed'), 0) AS busy_share,
        AVG(context_tokens) FILTER (phase = 'mixed') AS context_tokens,
        -- What a prompt token adds to a step.
        (AVG(busy_ns) FILTER (phase = 'mixed') - AVG(busy_ns) FILTER (phase = 'decode'))
        / NULLIF(AVG(context_tokens) FILTER (phase = 'mixed'), 0) AS token_ns
    FROM timed
),
-- Chunks with which a step takes three times as long as one without.
sized AS (
    SELECT
        GREATEST(
            256, COALESCE(setting.max_num_seqs, 0), CAST(floor(2 * compared.decode_ns / NULLIF(compared.token_ns, 0) / 128) * 128 AS BIGINT)
        ) AS tokens,
        setting.max_num_batched_tokens AS now
    FROM compared
    CROSS JOIN engine_setting AS setting
)
SELECT
    CASE
        WHEN compared.steps = 0 THEN FALSE
        WHEN compared.busy_share < 0.7 THEN FALSE
        WHEN compared.decode_ns IS NULL THEN NULL
        WHEN compared.mixed_ns < 3 * compared.decode_ns THEN FALSE
        WHEN latency.worst_ns < 3 * latency.typical_ns THEN FALSE
        WHEN compared.steps < 10 OR latency.intervals = 0 THEN NULL
        WHEN sized.now <= sized.tokens THEN FALSE
        ELSE TRUE
    END AS is_confirmed,
    CASE
        WHEN compared.steps = 0 THEN 'no step, but for the first and the last, has prompts beside requests that generate'
        WHEN compared.busy_share < 0.7
            THEN format(
                'steps with prompts keep the {} busy for {:.0f}% of their time: their launches last, not their prompts',
                wording.device, 100 * compared.busy_share
            )
        WHEN compared.decode_ns IS NULL THEN 'no decode step was recorded to compare with'
        WHEN compared.mixed_ns < 3 * compared.decode_ns
            THEN format('steps with prompts take {:.1f} ms, others {:.1f}', compared.mixed_ns / 1e6, compared.decode_ns / 1e6)
        WHEN latency.worst_ns < 3 * latency.typical_ns
            THEN format(
                '99% of the latencies between tokens are below {:.1f} ms, half below {:.1f}', latency.worst_ns / 1e6, latency.typical_ns / 1e6
            )
        WHEN compared.steps < 10
            THEN format('prompts beside requests that generate were recorded in {} of the 10 steps that it takes', compared.steps)
        WHEN latency.intervals = 0 THEN 'latencies between tokens were not measured; record with traceql capture run'
        WHEN sized.now <= sized.tokens THEN format('a step has at most {:,} tokens already', sized.now)
    END AS reason,
    format(
        'Steps with prompts take {:.1f} ms instead of {:.1f}, and delay tokens of other requests',
        compared.mixed_ns / 1e6, compared.decode_ns / 1e6
    ) AS headline,
    [
        format(
            'Half of the tokens come {:.1f} ms after the one before, but 1% more than {:.1f} ms.', latency.typical_ns / 1e6, latency.worst_ns / 1e6
        ),
        format(
            '{} steps process {:,.0f} prompt tokens beside requests that generate; the {} is busy for {:.0f}% of them.',
            compared.steps, compared.context_tokens, wording.device, 100 * compared.busy_share
        )
    ] AS evidence,
    format(
        '--max-num-batched-tokens {}{}, or prefill on other devices; better latency, not more tokens per second',
        sized.tokens, CASE WHEN sized.now IS NOT NULL THEN format(' (now {})', sized.now) ELSE '' END
    ) AS remedy,
    'How much longer prompts then wait for their first token, and what smaller chunks cost in throughput.' AS unknowns,
    TRUE AS is_notable, compared.steps AS samples, 'mixed' AS phase
FROM compared
CROSS JOIN latency
CROSS JOIN sized
CROSS JOIN wording
