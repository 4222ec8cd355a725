-- As many requests run as max_num_seqs allows, and others wait, although the KV cache has room for them.
-- @title   requests wait for max_num_seqs
-- @group   scheduling
-- @unless  kv_cache_full
-- @query   serving.latency
-- @record  Record with traceql capture run, which notes how many requests run and wait.
-- @source  vLLM's scheduler, which starts no request while max_num_seqs run
-- @needs   decode_batch, engine_setting, engine_step, gain_of_batch, request, scheduler_load
WITH held AS (
    SELECT
        load.*,
        -- With a tenth of the cache to spare.
        CASE
            WHEN load.limit_steps > 0
                THEN LEAST(1 + load.limit_queued / load.max_running, COALESCE(90 / NULLIF(load.limit_kv_pct, 0), 1e9))
        END AS times,
        batch.tokens AS batch_tokens, batch.attention_share
    FROM scheduler_load AS load
    CROSS JOIN decode_batch AS batch
),
sized AS (
    SELECT
        *,
        gain_of_batch(times, COALESCE(batch_tokens, max_running), COALESCE(attention_share, 0)) AS gain,
        GREATEST(max_running + 1, CAST(floor(max_running * times / 8) * 8 AS BIGINT)) AS wanted
    FROM held
),
-- The latencies without the profiler where they were measured.
latency AS (
    SELECT MEDIAN(ttft_ns) AS ttft_ns FROM request
    WHERE profiled = (SELECT BOOL_AND(profiled) FROM request WHERE ttft_ns IS NOT NULL)
),
prefill AS (
    SELECT AVG(span_ns) AS ns FROM engine_step WHERE phase IN ('prefill', 'mixed') AND NOT is_edge
)
SELECT
    CASE
        WHEN sized.is_program THEN FALSE
        WHEN sized.steps = 0 OR sized.known = 0 OR sized.max_running IS NULL THEN NULL
        WHEN sized.limit_steps < 0.5 * sized.steps THEN FALSE
        ELSE sized.times >= 1.02
    END AS is_confirmed,
    CASE
        WHEN sized.is_program THEN 'these are steps of a program, not of an engine that schedules requests'
        WHEN sized.steps = 0 THEN 'the recording does not have what the scheduler ran; record with traceql capture run'
        WHEN sized.known = 0 OR sized.max_running IS NULL
            THEN 'it is unknown how many requests wait, or may run; record with traceql capture run'
        WHEN sized.limit_steps = 0
            THEN format('{:.0f} requests run at a time, {} may', sized.running, sized.max_running)
        WHEN sized.limit_steps < 0.5 * sized.steps
            THEN format('requests wait for max_num_seqs in {} of {} steps', sized.limit_steps, sized.steps)
        WHEN sized.times < 1.02
            THEN format('the KV cache has no room for more requests either: {:.0f}% are used', sized.limit_kv_pct)
    END AS reason,
    format('{} requests run, as many as may; {:.0f} more wait', sized.max_running, sized.limit_queued) AS headline,
    [
        format('In {} of {} steps, max_num_seqs ({}) requests run and others wait.', sized.limit_steps, sized.steps, sized.max_running),
        CASE WHEN sized.limit_kv_pct IS NOT NULL THEN format('Those that run hold {:.0f}% of the KV cache.', sized.limit_kv_pct) END,
        format(
            'The median request waits {:.0f} ms for its first token; a step with prompts takes {:.0f} ms.',
            latency.ttft_ns / 1e6, prefill.ns / 1e6
        )
    ] AS evidence,
    concat(
        format('--max-num-seqs {}', sized.wanted),
        CASE WHEN setting.max_num_batched_tokens < sized.wanted THEN format(' --max-num-batched-tokens {}', sized.wanted) END,
        CASE
            WHEN setting.sets_capture_sizes AND setting.max_capture_size < sized.wanted
                THEN format(', with {} in --cudagraph-capture-sizes', sized.wanted)
        END
    ) AS remedy,
    concat_ws(
        ' ',
        CASE WHEN sized.limit_kv_pct IS NULL THEN 'How full the KV cache is.' END,
        'How much longer a step of more requests takes, which each of them then waits for.'
    ) AS unknowns,
    sized.gain AS gain_pct, sized.limit_steps AS samples,
    sized.rank, sized.ts, 0 AS dur
FROM sized
CROSS JOIN latency
CROSS JOIN prefill
CROSS JOIN engine_setting AS setting
