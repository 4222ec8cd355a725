-- The KV cache has no room for requests that wait, although more may run.
-- @title   KV cache full
-- @group   memory
-- @query   serving.requests
-- @record  Record with traceql capture run, which notes what the scheduler runs and what its KV cache holds.
-- @source  vLLM's scheduler: even below max_num_seqs, a request waits until the cache has blocks for it
-- @needs   decode_batch, gain_of_batch, scheduler_load
WITH full_cache AS (
    SELECT
        load.*,
        (load.full_running + LEAST(load.full_queued, load.max_running - load.full_running)) / NULLIF(load.full_running, 0) AS times,
        batch.tokens AS batch_tokens, batch.attention_share
    FROM scheduler_load AS load
    CROSS JOIN decode_batch AS batch
)
SELECT
    CASE
        WHEN is_program THEN FALSE
        WHEN steps = 0 OR kv_pct IS NULL THEN NULL
        WHEN kv_pct < 90 THEN FALSE
        WHEN known = 0 OR max_running IS NULL THEN NULL
        ELSE full_steps >= 0.25 * steps
    END AS is_confirmed,
    CASE
        WHEN is_program THEN 'these are steps of a program, not of an engine that schedules requests'
        WHEN steps = 0 THEN 'the recording does not have what the scheduler ran; record with traceql capture run'
        WHEN kv_pct IS NULL THEN 'it is unknown how full the KV cache was; record with traceql capture run'
        WHEN kv_pct < 90 THEN format('requests hold at most {:.1f}% of the KV cache', kv_pct)
        WHEN known = 0 OR max_running IS NULL
            THEN format('the KV cache is {:.0f}% full, and it is unknown how many requests wait, or may run', kv_pct)
        WHEN full_steps < 0.25 * steps
            THEN format('the KV cache is {:.0f}% full at most, and holds requests back in {} of {} steps', kv_pct, full_steps, steps)
    END AS reason,
    format(
        'The KV cache is full: {:.0f} requests run, {:.0f} wait, {} may run', full_running, full_queued, max_running
    ) AS headline,
    [
        format('In {} of {} steps, requests wait, fewer run than may, and the KV cache is 90% full or more.', full_steps, steps),
        format('It is {:.0f}% full at most.', kv_pct),
        CASE
            WHEN preempted > 0 THEN format('{} times a request lost its blocks to others and was computed again.', preempted)
        END
    ] AS evidence,
    COALESCE(more_kv, 'A larger --gpu-memory-utilization, or --kv-cache-dtype fp8') AS remedy,
    'Whether the memory of the devices has room for a larger cache, and how much longer a step of more requests takes.' AS unknowns,
    gain_of_batch(times, COALESCE(batch_tokens, full_running), COALESCE(attention_share, 0)) AS gain_pct,
    full_steps AS samples,
    rank, ts, 0 AS dur,
    CASE WHEN kv_pct < 90 THEN format('KV cache ({:.1f}% used)', kv_pct) END AS fine
FROM full_cache
