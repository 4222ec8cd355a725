-- Decode steps read all weights for few requests, because clients send no more.
-- @title   small batch
-- @group   scheduling
-- @most    notable
-- @unless  kv_cache_full, pipeline_bubble, queueing
-- @query   steps.phases
-- @record  Record with traceql capture run, which notes how many requests run and wait.
-- @source  own: twice the requests, with attention twice as long and all else as now (macro gain_of_batch)
-- @needs   decode_batch, gain_of_batch, scheduler_load
WITH doubled AS (
    SELECT
        load.*,
        batch.steps AS decode_steps, batch.requests, batch.tokens AS batch_tokens, batch.attention_share,
        batch.unknown_steps, batch.step_ns,
        gain_of_batch(2, batch.tokens, COALESCE(batch.attention_share, 0)) AS gain
    FROM scheduler_load AS load
    CROSS JOIN decode_batch AS batch
)
SELECT
    CASE
        WHEN is_program THEN FALSE
        WHEN decode_steps = 0 THEN CASE WHEN unknown_steps = 0 THEN FALSE END
        WHEN batch_tokens IS NULL THEN NULL
        WHEN gain < 5 THEN FALSE
        WHEN known = 0 THEN NULL
        ELSE queued < GREATEST(1, 0.1 * running) AND COALESCE(kv_pct, 0) < 90
    END AS is_confirmed,
    CASE
        WHEN is_program THEN 'these are steps of a program, not of an engine that schedules requests'
        WHEN decode_steps = 0 AND unknown_steps = 0 THEN 'no decode step, but for the first and the last, was recorded'
        WHEN decode_steps = 0 OR batch_tokens IS NULL THEN 'the recording does not say what steps process'
        WHEN gain < 5
            THEN format('with {:.0f} tokens a step, twice the requests would give {:.0f}% more tokens', batch_tokens, GREATEST(0, gain))
        WHEN known = 0
            THEN format('decode steps have {:.0f} tokens; whether requests waited is not recorded', batch_tokens)
        WHEN queued >= GREATEST(1, 0.1 * running) THEN format('{:.1f} requests wait, and {:.1f} run', queued, running)
        WHEN kv_pct >= 90 THEN format('the KV cache is {:.0f}% full', kv_pct)
    END AS reason,
    concat(
        format('Decode steps have {:.0f} requests, ', requests),
        CASE WHEN most_queued = 0 THEN 'and none waits' ELSE 'and hardly any waits' END,
        format('; {} may run', max_running)
    ) AS headline,
    [
        format(
            'A decode step reads all weights for {:.0f} tokens, in {:.1f} ms; attention takes {:.0f}% of it.',
            batch_tokens, step_ns / 1e6, 100 * attention_share
        ),
        format('Twice the requests would give {:.0f}% more tokens per second, if only attention gets longer and the host keeps up.', gain),
        CASE WHEN kv_pct IS NOT NULL THEN format('The KV cache is at most {:.1f}% used.', kv_pct) END
    ] AS evidence,
    format(
        'Send more requests at a time, such as vllm bench serve --max-concurrency {}{} (throughput only: none gets faster)',
        2 * CAST(round(requests) AS BIGINT),
        CASE WHEN 2 * requests > max_running THEN format(', with --max-num-seqs {}', 2 * CAST(round(requests) AS BIGINT)) ELSE '' END
    ) AS remedy,
    'Whether there are more requests to send, and how much latency may grow.' AS unknowns,
    -- Requests that nobody sent are no loss of the run: it has no gain that would put it before others.
    TRUE AS is_notable, decode_steps AS samples, 'decode' AS phase
FROM doubled
