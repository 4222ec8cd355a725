-- Requests lose their KV blocks to others, and their tokens are computed again.
-- @title   preempted requests
-- @group   memory
-- @most    notable
-- @unless  kv_cache_full
-- @query   serving.requests
-- @record  Record with traceql capture run, which notes what the scheduler preempts.
-- @source  vLLM's scheduler, which frees all blocks of a request that it preempts, and begins it again
-- @needs   scheduler_load
SELECT
    CASE
        WHEN is_program THEN FALSE
        WHEN steps > 0 THEN preempted > 0
    END AS is_confirmed,
    CASE
        WHEN is_program THEN 'these are steps of a program, not of an engine that schedules requests'
        WHEN steps = 0 THEN 'the recording does not have what the scheduler ran; record with traceql capture run'
        WHEN preempted IS NULL THEN 'it is unknown what was computed of each request; record with traceql capture run'
        WHEN preempted = 0 THEN format('no request lost its blocks in {} steps', steps)
    END AS reason,
    format('{} times a request lost its KV blocks and began again', preempted) AS headline,
    [
        CASE
            WHEN again_tokens > 0
                THEN format('{:,} tokens were computed again, {:.1f}% of all.', again_tokens, 100.0 * again_tokens / NULLIF(tokens, 0))
        END,
        concat(format('{:.0f} requests run at a time', running), format(', {} may', max_running), '.'),
        format('The KV cache is {:.0f}% full at most.', kv_pct)
    ] AS evidence,
    concat_ws(
        '; else ',
        more_kv, format('--max-num-seqs {}, which lets fewer requests compete', CAST(GREATEST(1, floor(running * 0.9)) AS BIGINT))
    ) AS remedy,
    'How long it took to compute those tokens again.' AS unknowns,
    COALESCE(again_tokens >= 0.02 * tokens, preempted >= 10) AS is_notable,
    preempted AS samples,
    rank, ts, 0 AS dur
FROM scheduler_load
